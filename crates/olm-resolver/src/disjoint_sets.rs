//! Union-find.

/// Numbers below a bound in sets that are joined one by one. The representative of a set is its smallest member, which keeps
/// sets in the order of their members.
#[derive(Clone, Debug)]
pub struct DisjointSets {
    parent: Vec<usize>,
}

impl DisjointSets {
    /// Every member alone.
    pub fn new(len: usize) -> Self {
        Self {
            parent: (0..len).collect(),
        }
    }

    /// The representative of the set that `index` is in.
    pub fn root(&mut self, mut index: usize) -> usize {
        while self.parent[index] != index {
            self.parent[index] = self.parent[self.parent[index]];
            index = self.parent[index];
        }
        index
    }

    /// Makes one set of those that `a` and `b` are in.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
}
