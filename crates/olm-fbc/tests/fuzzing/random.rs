//! Pseudo-random numbers for tests.

/// Pseudo-random numbers; the same for the same start (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(start: u64) -> Self {
        Self(start | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `end`; 0 for an empty range.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from((self.next() >> 8) % end.max(1) as u64).unwrap_or(0)
    }

    /// Returns one of the items.
    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
