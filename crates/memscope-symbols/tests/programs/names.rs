use std::hint::black_box;

mod pool {
    #[inline(always)]
    pub fn grow(size: u64) -> u64 {
        std::hint::black_box(size) + 6 // line 6
    }

    pub struct Arena<T>(pub T);

    impl Arena<u64> {
        #[inline(never)]
        pub fn get(&self, size: u64) -> u64 {
            grow(size) ^ self.0 // line 14
        }
    }
}

fn main() {
    black_box(pool::Arena(black_box(3u64)).get(black_box(4)));
}
