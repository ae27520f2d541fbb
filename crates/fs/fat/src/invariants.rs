//! What must hold of a whole mount between two calls.
//!
//! The tests alone use it.
//!
//! May use: `boot`, `engine`, `file_system`, `inode`, `table`.

use crate::boot::{FIRST_CLUSTER, FatType};
use crate::engine::Engine;
use crate::file_system::Fat;
use crate::inode::{Inode, ROOT};
use crate::table::Link;
use fs_api::Errno;
use std::collections::BTreeMap;

impl Fat {
    /// Compares what the mount keeps in memory with itself: inodes and the places of their entries, chains,
    /// buffers. Damage of the medium changes none of it.
    ///
    /// # Panics
    /// If the memory contradicts itself, which is a defect of this crate.
    pub fn check_invariants(&self) {
        self.engine.assert_inodes();
        self.engine.buffers.assert_invariants();
        let last = self.engine.last_allocated.get();
        assert!(self.engine.volume.has_cluster(last), "the search goes on behind cluster {last}");
    }

    /// Compares the chains in memory, and the number of free clusters, with the tables. For volumes that
    /// were sound when they were mounted: a damaged one has clusters with two files, or none.
    ///
    /// # Errors
    /// [`Errno::Eio`] if the tables cannot be read.
    ///
    /// # Panics
    /// If they differ.
    pub async fn check_chains(&self) -> Result<(), Errno> {
        self.engine.assert_chains().await
    }
}

impl Engine {
    fn assert_inodes(&self) {
        let inodes = self.inodes.borrow();
        assert!(inodes.get(&ROOT).is_some_and(|root| root.is_directory), "the root is in memory");
        for (number, inode) in &*inodes {
            assert_eq!(inode.number, *number, "the key of an inode is its number");
            assert!(*number < self.next_inode.get(), "inode {number} was numbered");
            // What was removed must not be written over the entry of another file.
            assert!(
                inode.links.get() > 0 || inode.place.get().is_none(),
                "inode {number} has no name, and the entry {:?}",
                inode.place.get()
            );
            let (start, chain) = (inode.start.get(), inode.chain.borrow());
            assert!(
                chain.first().is_none_or(|first| *first == start),
                "inode {number} begins at {start}, its chain is {chain:?}"
            );
            assert!(
                chain.iter().all(|cluster| self.volume.has_cluster(*cluster)),
                "inode {number} has clusters of the volume: {chain:?}"
            );
            inode.zeros.borrow().assert_invariants();
        }
        for (place, number) in &*self.places.borrow() {
            let inode = inodes.get(number);
            assert_eq!(
                inode.and_then(|inode| inode.place.get()),
                Some(*place),
                "the entry of inode {number}"
            );
        }
    }

    async fn assert_chains(&self) -> Result<(), Errno> {
        let inodes: Vec<_> = self.inodes.borrow().values().cloned().collect();
        let mut users: BTreeMap<u32, u64> = BTreeMap::new();
        for inode in inodes {
            let chain = inode.chain.borrow().clone();
            for (index, cluster) in chain.iter().enumerate() {
                let link = self.link(*cluster).await?;
                let is_last = index + 1 == chain.len();
                let expected = chain.get(index + 1).map_or(Link::End, |next| Link::Next(*next));
                // Of a chain that was not followed to its end more may come.
                if is_last && !inode.is_chain_whole.get() {
                    assert_ne!(link, Link::Free, "inode {}: cluster {cluster}", inode.number);
                } else {
                    assert_eq!(link, expected, "inode {}: behind {cluster}", inode.number);
                }
                let other = users.insert(*cluster, inode.number);
                assert_eq!(other, None, "cluster {cluster} is also one of inode {}", inode.number);
            }
            self.assert_length(&inode);
        }
        let mut free = 0;
        for cluster in FIRST_CLUSTER..self.volume.cluster_end() {
            free += u32::from(self.link(cluster).await? == Link::Free);
        }
        // FSInfo's number may be older than the tables until it was counted.
        if self.is_count_certain.get() {
            assert_eq!(self.free_clusters.get(), Some(free), "free clusters");
        }
        Ok(())
    }

    /// A chain that is known as a whole has as many clusters as the size needs.
    fn assert_length(&self, inode: &Inode) {
        let is_fixed = inode.is_root() && self.volume.kind != FatType::Fat32;
        if inode.is_chain_whole.get() && !is_fixed {
            let needed = inode.size_bytes.get().div_ceil(self.volume.cluster_bytes());
            // `fallocate` may have set clusters aside behind the end.
            let needed = if inode.has_clusters_behind_end.get() {
                needed.max(inode.chain.borrow().len() as u64)
            } else {
                needed
            };
            assert_eq!(
                inode.chain.borrow().len() as u64,
                needed,
                "clusters of inode {} of {} bytes",
                inode.number,
                inode.size_bytes.get()
            );
        }
    }
}
