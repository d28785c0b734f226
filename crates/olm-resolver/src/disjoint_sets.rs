//! Union-find.

/// Numbers below a bound in sets that are joined one by one. The representative of a set is its smallest
/// member, so sets are ordered by their members.
#[derive(Clone, Debug)]
pub struct DisjointSets {
    parent: Vec<usize>,
}

impl DisjointSets {
    /// Returns sets of one member each.
    pub fn new(len: usize) -> Self {
        Self {
            parent: (0..len).collect(),
        }
    }

    /// Returns the representative of the set with `index`.
    pub fn root(&mut self, mut index: usize) -> usize {
        while self.parent[index] != index {
            self.parent[index] = self.parent[self.parent[index]];
            index = self.parent[index];
        }
        index
    }

    /// Joins the sets of `a` and `b`.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
}
