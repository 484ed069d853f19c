fn main() {
    sim_link::shared_library("ms_tools_ext", &[]);
}
