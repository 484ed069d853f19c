fn main() {
    sim_link::shared_library("profapi", &[]);
}
