//! The passes over the leaves of an event. Each loop of the protocol over leaves is here, once.
//!
//! A pass is a visitor, which [`Branch::visit`] leads from leaf to leaf. Its [`Cursor`] numbers the leaves. A
//! combinator that has to do with a pass looks at the cursor. A `guard` makes its event in the pass that begins the
//! synchronization. A nack is enabled in the pass that settles it, if the winner is not among its leaves.
//!
//! The four passes of every choice (survey, try, offer, settle) are compiled for each branch. All others go through
//! [`Erased`], and so do all passes over a choice within a choice. Code for each pair of a branch and a pass would take
//! long to compile.

use std::ops::Range;
use std::pin::Pin;
use std::task::Waker;
use std::time::Instant;

use super::protocol::Group;
use super::{Branch, Leaf, Offered, Offering, WakeList};
use crate::frame::report::Waits;

/// A pass over the leaves, in the order of the source.
pub trait Visit: Sized {
    /// The cursor of the pass.
    fn cursor(&mut self) -> &mut Cursor;

    /// Visits the next leaf.
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>);

    /// The threads to be woken after a pass that tries, offers or settles.
    fn wakes(&mut self) -> &mut WakeList {
        unreachable!("no partner is woken in this pass")
    }

    /// The leaves from `first` to the last one that was visited are due at `deadline`, if not earlier.
    fn due(&mut self, _first: usize, _deadline: Instant) {}

    /// The leaves from `first` to the last one that was visited are tried in this order. It gives the leaf of each turn.
    fn order(&mut self, _first: usize, _order: &[u32]) {}

    /// Erases the type of the pass.
    #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
    fn erase(&mut self) -> &mut dyn AnyVisit {
        self
    }
}

/// The purpose of a pass, as far as combinators have to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The synchronization begins: guards run.
    Begin,
    /// Leaves are counted, and asked whether they might commit.
    Survey,
    /// Leaves are tried.
    Try,
    /// Leaves are offered, or tried again.
    Offer,
    /// The choice is made, or given up: losers are retracted.
    Settle,
    /// The synchronization is settled and no lock is held: losers run their abort actions. Only leaves and combinators
    /// whose shape is walked take part.
    Abandon,
    /// The leaf is wanted that is tried in a certain turn.
    Locate,
    /// The synchronization is polled. Only leaves and combinators whose shape is walked take part.
    Attend,
    /// Leaves are counted. A combinator that knows how many it has may skip them.
    Count,
    /// Another purpose, which concerns leaves only.
    Other,
}

/// The position of a pass.
#[derive(Debug)]
pub struct Cursor {
    /// The purpose of the pass.
    pub pass: Pass,
    /// The number of the next leaf.
    pub next: usize,
    /// The first leaf that takes part, and the first behind it that does not.
    from: usize,
    to: usize,
    /// No further leaf takes part.
    over: bool,
    /// The leaf that has committed. A pass that settles is given it; others search it.
    pub winner: Option<usize>,
    /// A bit for each of the first 64 leaves that might commit. In a survey it is collected here. Otherwise leaves
    /// whose bit is 0 do not take part.
    hints: u64,
    /// Whether the outermost choice prefers the first leaf, once it is known.
    biased: Option<bool>,
    /// Whether some choice has an order of its own.
    ordered: bool,
}

impl Cursor {
    #[inline(always)]
    const fn new(pass: Pass) -> Self {
        Self {
            pass,
            next: 0,
            from: 0,
            to: usize::MAX,
            over: false,
            winner: None,
            hints: u64::MAX,
            biased: None,
            ordered: false,
        }
    }

    /// Begins again, with the leaves of a range.
    #[inline(always)]
    fn aim(&mut self, from: usize, to: usize) {
        self.next = 0;
        self.from = from;
        self.to = to;
    }

    /// Goes past the next leaf. Returns its number if it takes part.
    #[inline(always)]
    fn enter(&mut self) -> Option<usize> {
        let leaf = self.next;
        self.next += 1;
        (self.from <= leaf && leaf < self.to && !self.over && self.is_hinted(leaf)).then_some(leaf)
    }

    /// Whether a leaf might commit, as far as the survey knows.
    #[inline(always)]
    pub(super) fn is_hinted(&self, leaf: usize) -> bool {
        leaf >= 64 || self.hints >> leaf & 1 != 0
    }

    /// Whether none of the next `leaves` leaves takes part in a pass that tries or offers.
    #[inline(always)]
    pub(super) fn misses(&self, leaves: usize) -> bool {
        self.next + leaves <= self.from || self.to <= self.next || self.over
    }

    /// Goes past `leaves` leaves, which do not take part.
    #[inline(always)]
    pub fn skip(&mut self, leaves: usize) {
        self.next += leaves;
    }

    /// Of the next `leaves` leaves, those that take part, counted from the next one.
    #[inline(always)]
    pub fn window(&self, leaves: usize) -> Range<usize> {
        if self.over {
            return 0..0;
        }
        let end = self.to.saturating_sub(self.next).min(leaves);
        self.from.saturating_sub(self.next).min(end)..end
    }

    /// Whether no further leaf takes part.
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Goes past a leaf in a survey.
    #[inline(always)]
    pub fn hint(&mut self, may_commit: bool) {
        if self.next < 64 {
            self.hints |= u64::from(may_commit) << self.next;
        }
        self.next += 1;
    }

    /// States whether a choice prefers its first leaf. The outermost choice does so first, and decides.
    #[inline(always)]
    pub fn prefer(&mut self, biased: bool) {
        self.biased.get_or_insert(biased);
    }

    /// In a pass that settles: whether the winner is not among the leaves from `first` to the last that was visited.
    pub fn has_lost(&self, first: usize) -> bool {
        !self.winner.is_some_and(|leaf| first <= leaf && leaf < self.next)
    }

    #[inline(always)]
    fn survey(&self) -> Survey {
        let biased = self.biased.unwrap_or(false);
        Survey { leaves: self.next, biased, ordered: self.ordered, hints: self.hints }
    }

    /// States that the next leaves are tried in an order, which gives the leaf of each turn.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        self.prefer(true);
        self.ordered = true;
        if self.pass == Pass::Locate
            && let Some(turn) = self.winner.and_then(|turn| turn.checked_sub(self.next))
            && let Some(leaf) = order.get(turn)
        {
            self.winner = Some(self.next + *leaf as usize);
        }
    }
}

/// A pass whose type is erased.
pub(crate) trait AnyVisit {
    /// See [`Visit::cursor`].
    fn cursor(&mut self) -> &mut Cursor;
    /// See [`Visit::leaf`].
    fn leaf(&mut self, leaf: Pin<&mut (dyn Leaf + '_)>);
    /// See [`Visit::wakes`].
    fn wakes(&mut self) -> &mut WakeList;
    /// See [`Visit::due`].
    fn due(&mut self, first: usize, deadline: Instant);
    /// See [`Visit::order`].
    fn order(&mut self, first: usize, order: &[u32]);
}

impl<V: Visit> AnyVisit for V {
    fn cursor(&mut self) -> &mut Cursor {
        Visit::cursor(self)
    }
    fn leaf(&mut self, leaf: Pin<&mut (dyn Leaf + '_)>) {
        Visit::leaf(self, leaf);
    }
    fn wakes(&mut self) -> &mut WakeList {
        Visit::wakes(self)
    }
    fn due(&mut self, first: usize, deadline: Instant) {
        Visit::due(self, first, deadline);
    }
    fn order(&mut self, first: usize, order: &[u32]) {
        Visit::order(self, first, order);
    }
}

/// A pass whose type is erased, as a pass.
pub(crate) struct Erased<'a>(pub(crate) &'a mut dyn AnyVisit);

impl Visit for Erased<'_> {
    fn cursor(&mut self) -> &mut Cursor {
        self.0.cursor()
    }
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        self.0.leaf(leaf.erased());
    }
    fn wakes(&mut self) -> &mut WakeList {
        self.0.wakes()
    }
    fn due(&mut self, first: usize, deadline: Instant) {
        self.0.due(first, deadline);
    }
    fn order(&mut self, first: usize, order: &[u32]) {
        self.0.order(first, order);
    }
    fn erase(&mut self) -> &mut dyn AnyVisit {
        self.0
    }
}

/// Makes a pass whose type is erased.
#[inline(never)]
fn visit_erased<B: Branch>(branch: Pin<&mut B>, visit: &mut dyn AnyVisit) {
    branch.visit(&mut Erased(visit));
}

/// Makes a pass over a part of a choice. Only the way to a single leaf is compiled for each pass.
#[inline(always)]
pub(super) fn visit_part<B: Branch, V: Visit>(branch: Pin<&mut B>, visit: &mut V) {
    if B::SHAPE.single {
        branch.visit(visit);
    } else {
        visit_erased(branch, visit.erase());
    }
}

struct Begin(Cursor);

impl Visit for Begin {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.0
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        self.0.next += 1;
        leaf.begin();
    }
}

/// Runs guards. Afterwards the leaves are known.
#[inline(always)]
pub(super) fn begin<B: Branch>(branch: Pin<&mut B>) {
    if B::SHAPE.begins {
        visit_part(branch, &mut Begin(Cursor::new(Pass::Begin)));
    }
}

/// The properties of the leaves before any is tried.
pub(super) struct Survey {
    pub(super) leaves: usize,
    /// Whether the search for a ready leaf begins with the first leaf. False: it begins anywhere.
    pub(super) biased: bool,
    /// Whether some choice has an order of its own.
    ordered: bool,
    /// A bit for each of the first 64 leaves: 0 if it cannot commit now.
    pub(super) hints: u64,
}

impl Survey {
    /// The survey of a single leaf that was not asked.
    pub(super) const SINGLE: Self = Self { leaves: 1, biased: true, ordered: false, hints: 1 };
}

struct Surveyor(Cursor);

impl Visit for Surveyor {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.0
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        self.0.hint(leaf.hint());
    }
}

pub(super) fn survey<B: Branch>(branch: Pin<&mut B>) -> Survey {
    let mut surveyor = Surveyor(Cursor { hints: 0, ..Cursor::new(Pass::Survey) });
    branch.visit(&mut surveyor);
    surveyor.0.survey()
}

/// Counts leaves, and asks them nothing.
struct Count(Cursor);

impl Visit for Count {
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.0
    }
    fn leaf<L: Leaf + ?Sized>(&mut self, _leaf: Pin<&mut L>) {
        self.0.next += 1;
    }
}

/// A survey without hints. The leaves may be settled already.
pub(super) fn count<B: Branch>(branch: Pin<&mut B>) -> Survey {
    let mut count = Count(Cursor::new(Pass::Other));
    visit_erased(branch, &mut count);
    count.0.survey()
}

/// The number of leaves. They may be settled already.
#[inline(always)]
pub(super) fn number<B: Branch>(branch: Pin<&mut B>) -> usize {
    if B::SHAPE.single {
        return 1;
    }
    let mut count = Count(Cursor::new(Pass::Count));
    visit_erased(branch, &mut count);
    count.0.next
}

/// The leaf that is tried in a turn.
fn leaf_of_turn<B: Branch>(branch: Pin<&mut B>, turn: usize) -> usize {
    let mut locate = Count(Cursor { winner: Some(turn), ..Cursor::new(Pass::Locate) });
    visit_erased(branch, &mut locate);
    locate.0.winner.unwrap_or(turn)
}

/// Makes a pass over all leaves. It begins with the leaf of turn `first`, and ends when the pass is over.
#[inline(always)]
fn in_turn<B: Branch, V: Visit>(branch: &mut Pin<&mut B>, visit: &mut V, first: usize, survey: &Survey) {
    if B::SHAPE.ordered && survey.ordered {
        return in_order(branch, visit.erase(), survey);
    }
    visit.cursor().aim(first, usize::MAX);
    branch.as_mut().visit(visit);
    if first != 0 && !visit.cursor().over {
        visit.cursor().aim(0, first);
        branch.as_mut().visit(visit);
    }
}

/// The same for a choice with an order.
fn in_order<B: Branch>(branch: &mut Pin<&mut B>, visit: &mut dyn AnyVisit, survey: &Survey) {
    for turn in 0..survey.leaves {
        let leaf = leaf_of_turn(branch.as_mut(), turn);
        visit.cursor().aim(leaf, leaf + 1);
        visit_erased(branch.as_mut(), visit);
        if visit.cursor().over {
            return;
        }
    }
}

struct Try<'a> {
    cursor: Cursor,
    wakes: &'a mut WakeList,
}

impl<'a> Try<'a> {
    #[inline(always)]
    fn new(wakes: &'a mut WakeList) -> Self {
        Self { cursor: Cursor::new(Pass::Try), wakes }
    }

    #[inline(always)]
    fn found(&mut self, leaf: usize) {
        self.cursor.winner = Some(leaf);
        self.cursor.over = true;
    }
}

impl Visit for Try<'_> {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        if let Some(number) = self.cursor.enter()
            && leaf.attempt(self.wakes)
        {
            self.found(number);
        }
    }
    #[inline(always)]
    fn wakes(&mut self) -> &mut WakeList {
        self.wakes
    }
}

/// Commits the first leaf that is ready, from `first` on.
#[inline(always)]
pub(super) fn try_all<B: Branch>(
    branch: &mut Pin<&mut B>,
    survey: &Survey,
    first: usize,
    wakes: &mut WakeList,
) -> Option<usize> {
    let mut visit = Try::new(wakes);
    visit.cursor.hints = survey.hints;
    if survey.leaves > 64 || B::SHAPE.ordered && survey.ordered {
        in_turn(branch, &mut visit, first, survey);
        return visit.cursor.winner;
    }
    // All hints were taken at once, so that the processor need not predict branches through leaves that are not ready.
    let mut ready = visit.cursor.hints;
    while ready != 0 && visit.cursor.winner.is_none() {
        let behind = ready & (u64::MAX << first);
        let leaf = if behind != 0 { behind } else { ready }.trailing_zeros();
        ready &= !(1 << leaf);
        visit.cursor.aim(leaf as usize, leaf as usize + 1);
        branch.as_mut().visit(&mut visit);
    }
    visit.cursor.winner
}

/// Commits `leaf` if it can commit now. Returns the leaf that has committed.
pub(super) fn try_leaf<B: Branch>(branch: Pin<&mut B>, leaf: usize, wakes: &mut WakeList) -> Option<usize> {
    let mut visit = Try::new(wakes);
    visit.cursor.aim(leaf, leaf + 1);
    visit_erased(branch, &mut visit);
    visit.cursor.winner
}

/// Commits the first leaf that can commit now, in the order of the source. Returns its number.
pub(super) fn try_in_order<B: Branch>(branch: Pin<&mut B>, wakes: &mut WakeList) -> Option<usize> {
    let mut visit = Try::new(wakes);
    visit_erased(branch, &mut visit);
    visit.cursor.winner
}

/// Commits the only leaf if it can commit now.
#[inline(always)]
pub(super) fn try_one<B: Branch>(branch: Pin<&mut B>, wakes: &mut WakeList) -> bool {
    let mut visit = Try::new(wakes);
    branch.visit(&mut visit);
    visit.cursor.winner.is_some()
}

/// Offers leaves, or tries those again that retry.
struct Offers<'a, const RETRY: bool> {
    cursor: Cursor,
    at: Offering<'a>,
    wakes: &'a mut WakeList,
    /// The outcome for the leaf that was visited last.
    last: Offered,
}

impl<'a, const RETRY: bool> Offers<'a, RETRY> {
    #[inline(always)]
    fn new(at: Offering<'a>, wakes: &'a mut WakeList) -> Self {
        Self { cursor: Cursor::new(Pass::Offer), at, wakes, last: Offered::Idle }
    }
}

impl<const RETRY: bool> Visit for Offers<'_, RETRY> {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        let Some(number) = self.cursor.enter() else { return };
        // A copy, which need not be in memory where the leaf's part is inlined.
        let at = Offering { leaf: number as u32, ..self.at };
        self.last = if RETRY { leaf.retry(&at, self.wakes) } else { leaf.offer(&at, self.wakes) };
        match self.last {
            // The group has a copy of the waker now.
            Offered::Linked => self.at.waker = None,
            Offered::Idle => (),
            Offered::Committed => {
                self.cursor.winner = Some(number);
                self.cursor.over = true;
            }
            Offered::Lost => self.cursor.over = true,
        }
    }
    #[inline(always)]
    fn wakes(&mut self) -> &mut WakeList {
        self.wakes
    }
}

/// Offers every leaf, until one commits.
#[inline(always)]
pub(super) fn offer_all<B: Branch>(
    branch: &mut Pin<&mut B>,
    group: &Group,
    waker: &Waker,
    survey: &Survey,
    wakes: &mut WakeList,
) -> Option<usize> {
    let task = B::SHAPE.retries.then_some(waker);
    let waker = group.open(waker);
    let at = Offering { group, leaf: 0, single: B::SHAPE.single, waker, task, kept: None };
    if !B::SHAPE.single {
        return offer_each(branch, at, survey, wakes);
    }
    match offer_one(branch.as_mut(), at, wakes) {
        Offered::Committed => Some(0),
        Offered::Lost => outcome(group),
        Offered::Linked | Offered::Idle => None,
    }
}

#[inline(never)]
fn offer_each<B: Branch>(
    branch: &mut Pin<&mut B>,
    at: Offering<'_>,
    survey: &Survey,
    wakes: &mut WakeList,
) -> Option<usize> {
    let group = at.group;
    let mut visit = Offers::<false>::new(at, wakes);
    in_turn(branch, &mut visit, 0, survey);
    if visit.last == Offered::Lost { outcome(group) } else { visit.cursor.winner }
}

/// Tries the leaves that retry, from `first` on.
pub(super) fn retry_all<B: Branch>(
    branch: &mut Pin<&mut B>,
    group: &Group,
    waker: &Waker,
    first: usize,
    survey: &Survey,
    wakes: &mut WakeList,
) -> Option<usize> {
    let single = B::SHAPE.single;
    let at = Offering { group, leaf: 0, single, waker: None, task: Some(waker), kept: None };
    let mut visit = Offers::<true>::new(at, wakes);
    in_turn(branch, &mut Erased(&mut visit), first, survey);
    if visit.last == Offered::Lost { outcome(group) } else { visit.cursor.winner }
}

fn outcome(group: &Group) -> Option<usize> {
    group.outcome().map(|leaf| leaf as usize)
}

/// Offers the only leaf.
struct OfferOne<'a> {
    cursor: Cursor,
    at: Offering<'a>,
    wakes: &'a mut WakeList,
    offered: Offered,
}

impl Visit for OfferOne<'_> {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        let at = self.at;
        self.offered = leaf.offer(&at, self.wakes);
    }
    #[inline(always)]
    fn wakes(&mut self) -> &mut WakeList {
        self.wakes
    }
}

/// Offers the only leaf. A single leaf has a way of its own, which is the shortest.
#[inline(always)]
pub(crate) fn offer_one<B: Branch>(branch: Pin<&mut B>, at: Offering<'_>, wakes: &mut WakeList) -> Offered {
    let mut visit = OfferOne { cursor: Cursor::new(Pass::Offer), at, wakes, offered: Offered::Idle };
    branch.visit(&mut visit);
    visit.offered
}

struct Settle<'a> {
    cursor: Cursor,
    wakes: &'a mut WakeList,
}

impl Visit for Settle<'_> {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        let won = self.cursor.winner == Some(self.cursor.next);
        self.cursor.next += 1;
        leaf.settle(won, self.wakes);
    }
    #[inline(always)]
    fn wakes(&mut self) -> &mut WakeList {
        self.wakes
    }
}

/// Retracts all leaves except `winner`, and enables the nacks of the branches that lost. `winner` has committed, or is
/// `None` when no leaf will.
#[inline(always)]
pub(crate) fn settle<B: Branch>(branch: Pin<&mut B>, winner: Option<usize>, wakes: &mut WakeList) {
    if B::SHAPE.single {
        branch.visit(&mut Settle { cursor: Cursor { winner, ..Cursor::new(Pass::Settle) }, wakes });
    } else {
        settle_all(branch, winner, wakes);
    }
}

#[inline(never)]
fn settle_all<B: Branch>(branch: Pin<&mut B>, winner: Option<usize>, wakes: &mut WakeList) {
    branch.visit(&mut Settle { cursor: Cursor { winner, ..Cursor::new(Pass::Settle) }, wakes });
}

struct AtOnce<'a> {
    cursor: Cursor,
    wakes: &'a mut WakeList,
    done: bool,
}

impl Visit for AtOnce<'_> {
    #[inline(always)]
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    #[inline(always)]
    fn leaf<L: Leaf + ?Sized>(&mut self, leaf: Pin<&mut L>) {
        self.done = leaf.at_once(self.wakes);
    }
    #[inline(always)]
    fn wakes(&mut self) -> &mut WakeList {
        self.wakes
    }
}

/// Commits the only leaf, if it is prompt and that is possible.
#[inline(always)]
pub(super) fn at_once<B: Branch>(branch: Pin<&mut B>, wakes: &mut WakeList) -> bool {
    let mut visit = AtOnce { cursor: Cursor::new(Pass::Other), wakes, done: false };
    branch.visit(&mut visit);
    visit.done
}

/// A pass that is rare.
struct Walk<'a> {
    cursor: Cursor,
    what: What<'a>,
}

enum What<'a> {
    Attend(&'a Waker),
    Poll,
    Abandon,
    Report(&'a mut Waits),
    Locked(&'a mut dyn FnMut()),
}

impl Visit for Walk<'_> {
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    fn leaf<L: Leaf + ?Sized>(&mut self, mut leaf: Pin<&mut L>) {
        let Some(number) = self.cursor.enter() else { return };
        match &mut self.what {
            What::Attend(waker) => leaf.attend(waker),
            What::Poll if leaf.as_mut().is_ready() => {
                self.cursor.winner = Some(number);
                self.cursor.over = true;
            }
            What::Poll => (),
            What::Abandon => leaf.abandon(),
            What::Report(waits) => leaf.report(waits),
            What::Locked(f) => leaf.locked(f),
        }
    }
}

fn walk<B: Branch>(branch: Pin<&mut B>, pass: Pass, what: What<'_>) -> Option<usize> {
    let mut walk = Walk { cursor: Cursor::new(pass), what };
    visit_erased(branch, &mut walk);
    walk.cursor.winner
}

/// Shows the waker of the synchronization to the leaves that want it.
#[inline(always)]
pub(super) fn attend<B: Branch>(branch: Pin<&mut B>, waker: &Waker) {
    if B::SHAPE.walked {
        walk(branch, Pass::Attend, What::Attend(waker));
    }
}

/// Polls the leaves that are futures. Returns the first that is ready.
pub(super) fn poll<B: Branch>(branch: Pin<&mut B>) -> Option<usize> {
    walk(branch, Pass::Other, What::Poll)
}

/// Runs the abort actions of the branches that lost. The synchronization is settled, and no lock is held.
#[inline(always)]
pub(super) fn abandon<B: Branch>(branch: Pin<&mut B>) {
    if B::SHAPE.walked {
        walk(branch, Pass::Abandon, What::Abandon);
    }
}

/// Adds what the leaves wait on, for a report.
pub(crate) fn report<B: Branch>(branch: Pin<&mut B>, waits: &mut Waits) {
    walk(branch, Pass::Other, What::Report(waits));
}

/// Runs `f` under the lock of the only leaf's queue.
pub(super) fn locked<B: Branch>(branch: Pin<&mut B>, f: &mut dyn FnMut()) {
    walk(branch, Pass::Other, What::Locked(f));
}

/// Collects the deadlines of the leaves.
struct Dues {
    cursor: Cursor,
    dues: Vec<Option<Instant>>,
}

impl Visit for Dues {
    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
    fn leaf<L: Leaf + ?Sized>(&mut self, _leaf: Pin<&mut L>) {
        self.cursor.next += 1;
    }
    fn due(&mut self, first: usize, deadline: Instant) {
        for due in &mut self.dues[first..self.cursor.next] {
            *due = Some(due.map_or(deadline, |earlier| earlier.min(deadline)));
        }
    }
    fn order(&mut self, first: usize, order: &[u32]) {
        let dues = self.dues[first..].to_vec();
        for (turn, leaf) in order.iter().enumerate() {
            self.dues[first + turn] = dues[*leaf as usize];
        }
    }
}

/// The deadline of each turn: of the leaf, where a branch has no order of its own.
pub(super) fn dues<B: Branch>(branch: Pin<&mut B>, leaves: usize) -> Vec<Option<Instant>> {
    let mut visit = Dues { cursor: Cursor::new(Pass::Other), dues: vec![None; leaves] };
    visit_erased(branch, &mut visit);
    visit.dues
}
