use std::cell::Cell;
use std::fs::{self, OpenOptions};

use super::*;
use crate::index::tests::CATALOG;
use crate::proto;

/// Writing to `/dev/full` fails as on a full volume. The second attempt must not use a file again.
#[test]
fn an_index_is_built_in_memory_if_either_file_has_no_room() {
    let dir = tempfile::tempdir().expect("folder");
    fs::write(dir.path().join("c.yaml"), CATALOG).expect("catalog");
    for full in [0, 1] {
        let created = Cell::new(0);
        let create = || {
            if created.replace(created.get() + 1) == full {
                OpenOptions::new().read(true).write(true).open("/dev/full")
            } else {
                tempfile::tempfile()
            }
        };
        let index = open_in(dir.path(), create).expect("index");
        assert_eq!(created.get(), 2, "files created, with file {full} full");
        let entry = &index.directory().entries[0];
        let bundle: proto::Bundle = index.content_frame(entry).decode().expect("bundle");
        assert!(
            bundle.csv_json.contains(r#""displayName":"P""#),
            "{}",
            bundle.csv_json
        );
    }
}
