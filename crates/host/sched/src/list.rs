//! Doubly linked lists of requests, linked by request number: constant time wherever a merge takes
//! a request out, and no allocation once the links have grown.

use crate::RequestId;

const NONE: u32 = u32::MAX;

/// The links of a request that is in no list, in debug builds.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// Links of all requests for one kind of list; a request is in at most one list of the kind.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<Link>);

impl Links {
    fn reserve(&mut self, id: RequestId) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, Link { previous: OUT, next: OUT });
        }
        debug_assert!(self.0[id.index()].next == OUT, "a request is in one list of a kind");
    }

    /// Heap bytes that the links hold, for the table of costs.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }

    /// The request after `id` in its list.
    pub fn next(&self, id: RequestId) -> Option<RequestId> {
        some(self.0[id.index()].next)
    }

    /// The request before `id` in its list.
    pub fn previous(&self, id: RequestId) -> Option<RequestId> {
        some(self.0[id.index()].previous)
    }
}

fn some(raw: u32) -> Option<RequestId> {
    (raw != NONE).then_some(RequestId(raw))
}

/// One list; its links stand in a [`Links`].
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// The request at the head; none if the list is empty.
    #[inline]
    pub fn front(&self) -> Option<RequestId> {
        some(self.head)
    }

    /// The request at the tail; none if the list is empty.
    #[inline]
    pub fn back(&self) -> Option<RequestId> {
        some(self.tail)
    }

    /// Requests in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a request at the tail.
    pub fn push_back(&mut self, links: &mut Links, id: RequestId) {
        links.reserve(id);
        links.0[id.index()] = Link { previous: self.tail, next: NONE };
        match some(self.tail) {
            Some(tail) => links.0[tail.index()].next = id.0,
            None => self.head = id.0,
        }
        self.tail = id.0;
        self.len += 1;
    }

    /// Puts a request before all others.
    pub fn push_front(&mut self, links: &mut Links, id: RequestId) {
        match self.front() {
            Some(head) => self.insert_before(links, head, id),
            None => self.push_back(links, id),
        }
    }

    /// Puts `id` before `place`, which is in the list.
    pub fn insert_before(&mut self, links: &mut Links, place: RequestId, id: RequestId) {
        links.reserve(id);
        debug_assert!(links.0[place.index()].next != OUT, "the place is in the list");
        let previous = links.0[place.index()].previous;
        links.0[id.index()] = Link { previous, next: place.0 };
        links.0[place.index()].previous = id.0;
        match some(previous) {
            Some(previous) => links.0[previous.index()].next = id.0,
            None => self.head = id.0,
        }
        self.len += 1;
    }

    /// Takes `id`, which is in the list, out.
    pub fn remove(&mut self, links: &mut Links, id: RequestId) {
        let Link { previous, next } = links.0[id.index()];
        debug_assert!(next != OUT, "only what is in a list is taken out");
        debug_assert!(
            some(previous).map_or(self.head, |previous| links.0[previous.index()].next) == id.0,
            "what stands before a request leads to it"
        );
        debug_assert!(
            some(next).map_or(self.tail, |next| links.0[next.index()].previous) == id.0,
            "what stands after a request leads to it"
        );
        if cfg!(debug_assertions) {
            links.0[id.index()] = Link { previous: OUT, next: OUT };
        }
        match some(previous) {
            Some(previous) => links.0[previous.index()].next = next,
            None => self.head = next,
        }
        match some(next) {
            Some(next) => links.0[next.index()].previous = previous,
            None => self.tail = previous,
        }
        self.len -= 1;
    }

    /// Takes the first request out.
    pub fn pop_front(&mut self, links: &mut Links) -> Option<RequestId> {
        let id = self.front()?;
        self.remove(links, id);
        Some(id)
    }

    /// Checks that the list is linked both ways from head to tail, and as long as counted.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self, links: &Links) {
        let mut before = None;
        // A list that is a ring would not end: one step more than requests are counted.
        for id in self.iter(links).take(self.len() + 1) {
            assert_eq!(links.previous(id), before, "a list is linked both ways");
            before = Some(id);
        }
        assert_eq!(self.back(), before, "a list ends at its tail");
        let listed = self.iter(links).take(self.len() + 1).count();
        assert_eq!(listed, self.len(), "a list is as long as counted");
    }

    /// All requests, first to last.
    pub fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = RequestId> + 'a {
        std::iter::successors(self.front(), |id| links.next(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::{Links, List};
    use crate::RequestId;
    use crate::tests::panics_with;

    #[test]
    fn every_broken_membership_is_seen() {
        let lists = || {
            let (mut links, mut one, mut other) =
                (Links::default(), List::default(), List::default());
            (0..3).for_each(|id| one.push_back(&mut links, RequestId(id)));
            other.push_back(&mut links, RequestId(3));
            one.remove(&mut links, RequestId(1));
            (links, one, other)
        };
        panics_with("a request is in one list of a kind", || {
            let (mut links, _, mut other) = lists();
            other.push_back(&mut links, RequestId(0));
        });
        panics_with("the place is in the list", || {
            let (mut links, mut one, _) = lists();
            one.insert_before(&mut links, RequestId(1), RequestId(4));
        });
        panics_with("only what is in a list is taken out", || {
            let (mut links, mut one, _) = lists();
            one.remove(&mut links, RequestId(1));
        });
        panics_with("what stands before a request leads to it", || {
            let (mut links, _, mut other) = lists();
            other.remove(&mut links, RequestId(0));
        });
        panics_with("what stands after a request leads to it", || {
            let (mut links, mut one, mut other) = lists();
            other.insert_before(&mut links, RequestId(3), RequestId(1));
            one.tail = 5;
            one.remove(&mut links, RequestId(2));
        });
    }

    #[test]
    fn every_broken_list_is_seen() {
        let audited = |fault: fn(&mut Links, &mut List)| {
            let (mut links, mut list) = (Links::default(), List::default());
            (0..3).for_each(|id| list.push_back(&mut links, RequestId(id)));
            list.audit(&links);
            fault(&mut links, &mut list);
            list.audit(&links);
        };
        panics_with("a list is linked both ways", || {
            audited(|links, _| links.0[1].previous = 2);
        });
        panics_with("a list ends at its tail", || audited(|_, list| list.tail = 1));
        panics_with("a list is as long as counted", || audited(|_, list| list.len = 4));
    }

    #[test]
    fn requests_leave_from_anywhere() {
        let (mut links, mut list) = (Links::default(), List::default());
        (0..5).for_each(|id| list.push_back(&mut links, RequestId(id)));
        list.remove(&mut links, RequestId(2));
        list.remove(&mut links, RequestId(0));
        list.remove(&mut links, RequestId(4));
        list.insert_before(&mut links, RequestId(3), RequestId(7));
        list.push_front(&mut links, RequestId(9));
        let ids: Vec<u32> = list.iter(&links).map(|id| id.0).collect();
        assert_eq!(ids, [9, 1, 7, 3]);
        assert_eq!((list.len(), list.back()), (4, Some(RequestId(3))));
    }
}
