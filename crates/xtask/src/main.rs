//! Developer commands: cluster, images, deploy, demo, test, generation.

fn main() {}
