//! Temporary storage for layers that are too large for memory, until they are read.
//!
//! # Guarantees
//! - Files have no name, so nothing is left behind however the pull or the process ends.
//! - All layers of a spool together take at most its limit. A layer's room is reserved before the layer is
//!   requested, in the order of asking.
//! - A folder that cannot be written is noticed before the registry is asked.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::SpooledTempFile;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::LAYER_IN_MEMORY;

/// Unit of reserved room, in bytes.
const PIECE: u64 = 1 << 20;

/// A folder for layers that are being pulled, with a bound for all of them together. Clones share the bound.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: PathBuf,
    max_bytes: u64,
    room: Arc<Semaphore>,
}

impl Spool {
    /// Returns a spool in `folder`, which is created when needed, of at most `max_bytes`.
    pub fn new(folder: impl Into<PathBuf>, max_bytes: u64) -> Self {
        let pieces = usize::try_from(max_bytes.div_ceil(PIECE)).unwrap_or(usize::MAX);
        Self {
            folder: folder.into(),
            max_bytes,
            room: Arc::new(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reserves room for a layer of `bytes`; waits while other layers have it. Dropping the returned value
    /// releases it.
    ///
    /// # Errors
    /// The fault of the folder, and what helps.
    pub(crate) async fn layer(&self, bytes: u64) -> Result<SpooledLayer, String> {
        let mut content = SpooledTempFile::new_in(LAYER_IN_MEMORY, &self.folder);
        if bytes <= LAYER_IN_MEMORY as u64 {
            return Ok(SpooledLayer { content, _room: None });
        }
        if bytes > self.max_bytes {
            return Err(format!(
                "a layer of {bytes} bytes does not fit into {}, which is limited to {} bytes",
                self.folder.display(),
                self.max_bytes
            ));
        }
        let pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(pieces).await;
        let room = room.map_err(|_| "the spool is closed".to_owned())?;
        let file = std::fs::create_dir_all(&self.folder).and_then(|()| content.roll());
        file.map_err(|error| self.unusable(&error))?;
        Ok(SpooledLayer {
            content,
            _room: Some(room),
        })
    }

    /// Error text for a layer that cannot be kept.
    pub(crate) fn unusable(&self, error: &io::Error) -> String {
        format!(
            "cannot store a layer larger than {} KiB in {}: {error}",
            LAYER_IN_MEMORY >> 10,
            self.folder.display()
        )
    }
}

impl Default for Spool {
    /// The system's folder for temporary files (`TMPDIR`), without a bound of its own.
    fn default() -> Self {
        Self::new(std::env::temp_dir(), u64::MAX)
    }
}

/// A layer being written or read.
#[derive(Debug)]
pub(crate) struct SpooledLayer {
    pub(crate) content: SpooledTempFile,
    _room: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

    use super::*;

    const LARGE: u64 = 3 << 20;

    #[tokio::test]
    async fn a_large_layer_leaves_no_name_in_the_folder() {
        let dir = tempfile::tempdir().expect("folder");
        let spool = Spool::new(dir.path().join("new"), 8 << 20);
        let mut layer = spool.layer(LARGE).await.expect("room").content;
        layer.write_all(b"content").expect("written");
        layer.seek(SeekFrom::Start(0)).expect("rewound");
        let mut text = String::new();
        layer.read_to_string(&mut text).expect("read");
        assert_eq!(text, "content");
        assert_eq!(std::fs::read_dir(spool.folder()).expect("folder").count(), 0);
    }

    #[tokio::test]
    async fn layers_wait_for_room_and_give_it_back() {
        let dir = tempfile::tempdir().expect("folder");
        let spool = Spool::new(dir.path(), 5 << 20);
        let first = spool.layer(LARGE).await.expect("room");
        let second = spool.clone();
        let mut second = std::pin::pin!(second.layer(LARGE));
        assert!(
            futures_poll(second.as_mut()).await.is_none(),
            "there is no room for two"
        );
        drop(first);
        assert!(second.await.is_ok());
        let small = spool.layer(1).await.expect("small");
        assert!(small._room.is_none(), "small layers need no room");
    }

    /// Polls a future once; `None` if it is pending.
    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match future.as_mut().poll(cx) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn what_can_never_fit_is_reported_with_the_folder() {
        let error = Spool::new("/spool", 2 << 20)
            .layer(LARGE)
            .await
            .expect_err("no room");
        assert_eq!(
            error,
            "a layer of 3145728 bytes does not fit into /spool, which is limited to 2097152 bytes"
        );
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("file");
        let error = Spool::new(&file, LARGE)
            .layer(LARGE)
            .await
            .expect_err("no folder");
        assert!(error.contains(&file.display().to_string()), "{error}");
        assert!(error.contains("cannot store a layer larger than"), "{error}");
    }
}
