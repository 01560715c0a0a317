//! Tests of restores from a real server to a recipient that keeps all messages.

use chunk::Decompressor;
use model::{ClassId, Kind, Name};

use super::super::recipient::Answer;
use super::super::select::{Choice, Part};
use super::*;
use crate::samples::{TestServer, bytes_of, chunk, file, name};

/// A client that lacks some of the files.
struct Client {
    messages: Vec<Message>,
    /// Names of the files that the client has.
    has: Vec<Name>,
    /// Names of the objects of the present window, in order.
    window: Vec<Name>,
    /// Answers that the server has not asked for yet, one for each window.
    answers: VecDeque<Answer>,
    /// Number of messages that the client accepts before it disconnects.
    messages_max: usize,
    /// Difference between the window number in an answer and the number of its window.
    shift: u64,
}

impl Client {
    fn new(has: &[&str]) -> Self {
        Self {
            messages: Vec::new(),
            has: has.iter().map(|text| name(text)).collect(),
            window: Vec::new(),
            answers: VecDeque::new(),
            messages_max: usize::MAX,
            shift: 0,
        }
    }

    fn answer_window(&mut self, number: u64) {
        let mut bits = vec![0; self.window.len().div_ceil(8)];
        for (position, name) in self.window.drain(..).enumerate() {
            bits[position / 8] |= u8::from(!self.has.contains(&name)) << (position % 8);
        }
        self.answers.push_back(Answer { window: number + self.shift, bits });
    }

    /// Returns the content of all received chunks, by place.
    fn chunks(&self) -> BTreeMap<Place, Vec<u8>> {
        let mut chunks = BTreeMap::new();
        for message in &self.messages {
            let Message::Quantum { first_place, record, digests } = message else { continue };
            let raw = Decompressor::new().expect("a context").decode(record).expect("is whole");
            assert_eq!(digests.len(), raw.chunks().count() * 32);
            for (offset, chunk) in (0..).zip(raw.chunks()) {
                let place = Place::new(first_place.pack(), first_place.index() + offset);
                chunks.insert(place, chunk.to_vec());
            }
        }
        chunks
    }

    fn objects(&self) -> Vec<Object> {
        let entries = self.messages.iter().filter_map(|message| match message {
            Message::Entries(entries) => Some(entries),
            _ => None,
        });
        let pages = entries.flatten();
        pages.flat_map(|entry| page::decode(&entry.page).expect("a page")).collect()
    }

    fn damaged(&self) -> Vec<Place> {
        let place = |message: &Message| match message {
            Message::Damaged { place, .. } => Some(*place),
            _ => None,
        };
        self.messages.iter().filter_map(place).collect()
    }
}

impl Recipient for Client {
    fn send(&mut self, message: Message) -> bool {
        if self.messages.len() == self.messages_max {
            return false;
        }
        match &message {
            Message::Entries(entries) => {
                for entry in entries {
                    let objects: Vec<Object> = page::decode(&entry.page).expect("a page");
                    assert_eq!(objects.len(), entry.deactivated.len());
                    self.window.extend(objects.into_iter().map(|object| object.name));
                }
            }
            Message::EntriesEnd(end) => self.answer_window(end.window),
            _ => {}
        }
        self.messages.push(message);
        true
    }

    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn is_listening(&self) -> bool {
        self.messages.len() < self.messages_max
    }
}

fn everything(server: &TestServer, range: Range<u64>) -> Selection {
    let span = catalog::PageSpan::Subtree(DirPath::above_root());
    let parts = vec![Part { span, name: None }];
    let sample = None;
    Selection { filespace: server.filespace, choice: Choice::Active, parts, range, sample }
}

fn restore(
    server: &TestServer,
    selection: &Selection,
    directories: Option<u32>,
    client: &mut Client,
) -> Result<Delivery, StoreError> {
    serve(&server.store, selection, Reader::server(), directories, client)
}

/// Returns a server with 30 directories of three files each. Some chunks are in many files.
fn filled() -> TestServer {
    let server = TestServer::new();
    for number in 0..30 {
        let path = format!("/{number:02}/");
        let own = [number * 10, number * 10 + 1];
        server.back_up(&path, &[("own", &own), ("same", &[7, 8]), ("mixed", &[number * 10, 7])]);
    }
    server
}

fn content(object: &Object, chunks: &BTreeMap<Place, Vec<u8>>) -> Vec<u8> {
    places(object).flat_map(|place| chunks[&place].clone()).collect()
}

#[test]
fn a_client_gets_each_file_that_it_lacks_whatever_the_windows() {
    let server = filled();
    for directories in [Some(1), Some(7), None] {
        let mut client = Client::new(&[]);
        let selection = everything(&server, 0..u64::MAX);
        restore(&server, &selection, directories, &mut client).expect("is sent");
        let (objects, chunks) = (client.objects(), client.chunks());
        assert_eq!(objects.len(), 90);
        let shared = objects.iter().filter(|object| object.name == name("same"));
        for object in shared {
            assert_eq!(content(object, &chunks), [chunk(7), chunk(8)].concat());
        }
        assert_eq!(content(&objects[0], &chunks), [chunk(0), chunk(7)].concat());
        assert!(
            objects
                .iter()
                .all(|object| content(object, &chunks).len() as u64 == object.stat.size)
        );
        let ends = |is_data: bool| {
            let number = |message: &Message| match message {
                Message::DataEnd(end) if is_data => Some((end.window, end.last)),
                Message::EntriesEnd(end) if !is_data => Some((end.window, end.last)),
                _ => None,
            };
            client.messages.iter().filter_map(number).collect::<Vec<_>>()
        };
        assert_eq!(ends(true), ends(false), "each window has its data");
        let numbers = ends(true).into_iter().map(|(window, _)| window);
        assert!(numbers.eq(0..ends(true).len() as u64));
        assert!(ends(true).iter().rev().skip(1).all(|(_, last)| !last));
    }
}

#[test]
fn no_data_comes_for_files_that_the_client_has() {
    let server = filled();
    let selection = everything(&server, 0..u64::MAX);
    let mut all = Client::new(&["own", "same", "mixed"]);
    restore(&server, &selection, None, &mut all).expect("is sent");
    assert_eq!((all.chunks().len(), all.objects().len()), (0, 90));
    let mut some = Client::new(&["own", "mixed"]);
    restore(&server, &selection, None, &mut some).expect("is sent");
    let quanta = some
        .messages
        .iter()
        .filter(|message| matches!(message, Message::Quantum { .. }));
    assert_eq!(quanta.count(), 1, "the quantum of the shared chunks goes out once a window");
}

#[test]
fn a_client_that_goes_away_or_answers_another_window_ends_the_restore() {
    let server = filled();
    let selection = everything(&server, 0..u64::MAX);
    for messages_max in [0, 1, 2, 5] {
        let mut client = Client { messages_max, ..Client::new(&[]) };
        let ended = restore(&server, &selection, Some(4), &mut client);
        assert!(matches!(ended, Err(StoreError::Cancelled(_))), "{ended:?}");
        assert_eq!(client.messages.len(), messages_max);
    }
    let mut client = Client { shift: 1, ..Client::new(&[]) };
    let ended = restore(&server, &selection, Some(4), &mut client);
    assert!(matches!(ended, Err(StoreError::Usage(_))), "{ended:?}");
}

#[test]
fn a_range_needs_only_the_chunks_that_hold_it() {
    let server = TestServer::new();
    server.back_up("/", &[("x", &[1, 2, 3, 4])]);
    let object = &server.objects("/")[0];
    let lengths = [1, 2, 3, 4].map(|number| bytes_of(&[number]));
    let chunks = || {
        let length = |place| server.store.pools.chunk(place).expect("exists").0;
        places(object).map(|place| (place, length(place))).collect::<Vec<_>>()
    };
    let check = |range: Range<u64>, expected: Range<usize>| {
        let inside = within(object, chunks(), &range);
        assert_eq!(inside, chunks()[expected], "{range:?}");
    };
    let (second, third) = (lengths[0], lengths[0] + lengths[1]);
    check(0..u64::MAX, 0..4);
    check(0..1, 0..1);
    check(0..second, 0..1);
    check(0..second + 1, 0..2);
    check(second..third, 1..2);
    check(second - 1..third + 1, 0..3);
    check(object.stat.size - 1..u64::MAX - 1, 3..4);
    check(object.stat.size..u64::MAX - 1, 0..0);
    let mut unknown = chunks();
    unknown[1].1 = 0;
    assert_eq!(within(object, unknown, &(0..1)).len(), 4, "with a lost table all are sent");
}

/// Each range of an image cost a quantum of 2 MiB.
#[test]
fn a_reader_of_a_range_gets_a_part_of_a_large_quantum() {
    let server = TestServer::new();
    let numbers: Vec<u64> = (0..2000).collect();
    server.back_up("/", &[("x", &numbers[..])]);
    let all: Vec<Place> = places(&server.objects("/")[0]).collect();
    let sent = |range: Range<u64>| {
        let mut client = Client::new(&[]);
        restore(&server, &everything(&server, range), None, &mut client).expect("is sent");
        client
    };
    let offset = |number: usize| bytes_of(&numbers[..number]);
    assert_eq!(sent(0..u64::MAX).chunks().len(), 2000, "a restore needs all");
    let one = sent(offset(700)..offset(700) + 1);
    assert_eq!(one.chunks(), BTreeMap::from([(all[700], chunk(700))]));
    let is_right = one.messages.iter().any(|message| match message {
        Message::Quantum { digests, .. } => {
            *digests == server.store.pools.chunk(all[700]).expect("exists").1.0
        }
        _ => false,
    });
    assert!(is_right, "it has the digest of its chunk");
    assert_eq!(sent(offset(700)..offset(1000)).chunks().len(), 300);
    let most = sent(offset(700)..offset(1300));
    assert_eq!(most.chunks().len(), 2000, "the rest costs little");
}

#[test]
fn a_hole_moves_the_chunks_after_it() {
    let place = |index| Place::new(PackNumber(1), index);
    let run = |index| Extent::Chunks(model::ChunkRange { first: place(index), count: 1 });
    let extents = vec![run(0), Extent::Hole { bytes: 1000 }, run(1)];
    let object = file(name("x"), ClassId(1), 1200, extents);
    let chunks = || vec![(place(0), 100), (place(1), 100)];
    assert_eq!(within(&object, chunks(), &(100..1100)), []);
    assert_eq!(within(&object, chunks(), &(1100..1101)), chunks()[1..]);
    assert_eq!(within(&object, chunks(), &(99..1101)), chunks());
}

#[test]
fn lost_data_is_reported_chunk_by_chunk_and_the_rest_comes() {
    let server = TestServer::new();
    server.back_up("/", &[("lost", &[1, 2])]);
    server.seal();
    server.back_up("/", &[("whole", &[3])]);
    server.seal();
    let lost = server.objects("/").into_iter().find(|object| object.name == name("lost"));
    let lost: Vec<Place> = places(&lost.expect("is active")).collect();
    server.damage(lost[0].pack());
    let mut client = Client::new(&[]);
    restore(&server, &everything(&server, 0..u64::MAX), None, &mut client).expect("is sent");
    assert_eq!(client.damaged(), lost);
    assert!(server.store.pools.take_lost().iter().eq([&lost[0].pack()]), "people are told");
    assert!(client.chunks().values().eq([&chunk(3)]));
}

#[test]
fn objects_without_data_are_entries_alone() {
    let server = TestServer::new();
    let mut folder = file(name("d"), ClassId(1), 0, Vec::new());
    (folder.stat.kind, folder.payload) = (Kind::Directory, Payload::Nothing);
    let mut empty = file(name("empty"), ClassId(1), 0, Vec::new());
    empty.payload = Payload::Nothing;
    let backed_up = vec![folder, empty];
    let change = catalog::change::Change { backed_up, ..Default::default() };
    server.apply("/", change, model::ServerTime(1));
    let mut client = Client::new(&[]);
    restore(&server, &everything(&server, 0..u64::MAX), None, &mut client).expect("is sent");
    assert_eq!(client.objects().len(), 2);
    assert_eq!(client.chunks().len(), 0);
    assert_eq!(client.objects()[0].stat.kind, Kind::Directory);
}

#[test]
fn a_damaged_page_costs_its_own_directory_only() {
    let server = filled();
    let key = catalog::PageKey::first_of(DirPath::new(b"/07/").expect("a directory"));
    let page = server.store.catalog.page(server.filespace, &key).expect("is read");
    let page = catalog::PageRow { body: vec![0xff], ..page.expect("is there") };
    let put = catalog::Write::PutPage { filespace: server.filespace, page };
    server.store.commit(vec![put]).expect("is written");
    let mut client = Client::new(&[]);
    let sent = restore(&server, &everything(&server, 0..u64::MAX), Some(7), &mut client);
    let error = sent.expect_err("a page is damaged").to_string();
    assert!(error.starts_with("1 row of the catalogue cannot be read"), "{error}");
    assert!(error.contains("/07/"), "{error}");
    let (objects, chunks) = (client.objects(), client.chunks());
    assert_eq!(objects.len(), 87, "all files of the other directories");
    let is_whole = |object: &Object| content(object, &chunks).len() as u64 == object.stat.size;
    assert!(objects.iter().all(is_whole));
    let is_last = |message: &Message| matches!(message, Message::DataEnd(end) if end.last);
    assert!(!client.messages.iter().any(is_last), "the error comes after the data");
}
