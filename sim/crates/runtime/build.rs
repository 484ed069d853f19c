fn main() {
    sim_link::shared_library("runtime", &["profapi", "ascend_hal"]);
}
