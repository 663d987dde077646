//! A folder that was copied from another node's.

use super::reading::{read_all, root};
use super::*;
use crate::journal::{Adopted, JournalPartition};
use crate::stream::Partition as _;

/// A node on a copy of another's folder.
fn copy_of(node: &Node) -> Node {
    let copy = Node { id: node.id, ..Node::new() };
    std::fs::create_dir(copy.path()).unwrap();
    for entry in std::fs::read_dir(node.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

async fn all_texts(node: &Node, id: JournalId) -> Vec<String> {
    texts(&read_all(&mut JournalPartition::in_directory(&root(node), id), 0, 1 << 20).await)
}

#[tokio::test]
async fn clicks_of_a_copy_go_on_in_another_journal_and_the_copy_goes() {
    let node = Node::new();
    let journal = node.open();
    for number in 0..30 {
        click(&journal, format!("click {number}").as_bytes());
    }
    assert!(node.segments().len() > 1, "over the border of a segment");
    let copy = copy_of(&node);
    assert!(copy.journals.is_copy(node.id).unwrap() && !node.journals.is_copy(node.id).unwrap());
    click(&journal, b"one more");
    let id = JournalId::new();
    let next = copy.journals.open_journal(id, FIRST_MARK, 0).unwrap();
    click(&next, b"its own");
    assert_eq!(copy.journals.adopt_copy(node.id, &next).unwrap(), Adopted { clicks: 30, whole: true });
    let texts = all_texts(&copy, id).await;
    assert_eq!((texts.len(), texts[0].as_str(), texts[30].as_str()), (31, "its own", "click 29"));
    assert_eq!(copy.journals.ids().unwrap(), [id]);
    let mut original = JournalPartition::new(&journal);
    journal.sync().unwrap();
    assert_eq!(original.end().await.unwrap(), 31, "the journal itself goes on as if nothing had been");
}

#[tokio::test]
async fn a_copy_for_which_there_is_no_room_stays_until_there_is() {
    let node = Node::new();
    let journal = node.open();
    for _ in 0..20 {
        click(&journal, &[7; 9_000]);
    }
    let small = copy_of(&node);
    let config = JournalConfig { max_bytes: 128 << 10, reserve: 0, ..CONFIG };
    let journals = Node::journals(&small.directory, config, &small.disk, &small.clock);
    let (id, other) = (JournalId::new(), JournalId::new());
    let next = journals.open_journal(id, FIRST_MARK, 0).unwrap();
    let adopted = journals.adopt_copy(node.id, &next).unwrap();
    assert!(!adopted.whole && adopted.clicks > 0 && small.path().exists(), "{adopted:?}");
    assert_eq!(next.stats().lost.count, 0, "what is still here is not lost");
    let next = small.journals.open_journal(other, FIRST_MARK, 0).unwrap();
    assert_eq!(small.journals.adopt_copy(node.id, &next).unwrap(), Adopted { clicks: 20, whole: true });
    assert!(!small.path().exists());
}
