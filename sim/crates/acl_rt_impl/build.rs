fn main() {
    sim_link::shared_library("acl_rt_impl", &["runtime"]);
}
