fn main() {
    sim_link::shared_library("ascend_hal", &[]);
}
