fn main() {
    sim_link::shared_library("dcmi", &["ascend_hal"]);
}
