fn main() {
    sim_link::shared_library("acl_tdt_channel", &[]);
}
