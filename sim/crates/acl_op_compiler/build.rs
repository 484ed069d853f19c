fn main() {
    sim_link::shared_library("acl_op_compiler", &["acl_rt_impl", "runtime"]);
}
