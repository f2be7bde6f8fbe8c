//! Memory that the plan leaves out: the device object, the secure store's, a statement's text, the
//! receiver of rows. In a file of its own, because the allocator counts for all threads.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[cfg(test)]
mod tests {
    use probity_pocketdb::flash::FileFlash;
    use probity_pocketdb::limits::STATEMENT_BYTES_MAX;
    use probity_pocketdb::secure::FileStore;
    use probity_pocketdb::{Error, Heading, Result, Row, Sink, Store};

    use super::ALLOCATOR;

    /// Blocks of 1 GiB, the token's chip.
    const BLOCKS: u32 = 8_192;
    const STORE_BYTES: usize = 1 << 20;
    const MEMORY: usize = 65_536;

    /// Notes what is allocated while a statement runs, and keeps nothing.
    #[derive(Default)]
    struct Noting(usize);

    impl Sink for Noting {
        fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
            self.0 = ALLOCATOR.allocated();
            Ok(())
        }

        fn row(&mut self, _row: &Row<'_>) -> Result<()> {
            Err(Error::Receiver)
        }
    }

    /// P3 and the memory figure: the device object took two bytes for each block that the file's head named,
    /// and the document did not say what the figure leaves out.
    #[test]
    fn what_lies_beside_the_plan_is_small_and_known() {
        let folder = tempfile::tempdir().unwrap();
        let (chip, root) = (folder.path().join("chip"), folder.path().join("root"));
        let before = ALLOCATOR.allocated();
        let flash = FileFlash::create(&chip, BLOCKS, false).unwrap();
        let device = ALLOCATOR.allocated() - before;
        let secure = FileStore::create(&root, STORE_BYTES).unwrap();
        let store = ALLOCATOR.allocated() - before - device;
        let (fixed_device, fixed_store) = (size_of::<FileFlash>(), size_of::<FileStore>());
        println!("device {device} and {fixed_device}, secure store {store} and {fixed_store}");
        assert!(device + fixed_device <= 512);
        assert!((STORE_BYTES..STORE_BYTES + 512).contains(&(store + fixed_store)));

        let mut vault = Store::create(flash, secure, &[7; 32], MEMORY).unwrap();
        let create = "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT(100))";
        vault.execute(create, &[], &mut Noting::default()).unwrap();
        let mut taken = |text: &str| {
            let mut noting = Noting::default();
            let before = ALLOCATOR.allocated();
            vault.execute(text, &[], &mut noting).unwrap();
            noting.0 - before
        };
        // A text is its caller's; where it has doubled quotes the engine makes a copy.
        let filler = "x".repeat(STATEMENT_BYTES_MAX - 60);
        let plain = taken(&format!("SELECT id FROM t WHERE s = 'a' -- {filler}"));
        let doubled = taken(&format!("SELECT id FROM t WHERE s = '''' -- {filler}"));
        println!("statement {plain}, with doubled quotes {doubled}");
        assert!((doubled - plain) <= STATEMENT_BYTES_MAX && doubled > plain);
        assert!(plain <= 4_096, "{plain}");
    }
}
