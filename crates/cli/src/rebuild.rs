//! Starting ranks again: who was asked for, who has been started, and what can be answered. No input or
//! output.
//!
//! Each process that is started again has a number of its own, behind those of the ranks: nothing that was
//! meant for the dead can reach it. Those who live ask for it, all of them the same; the answer comes when
//! all new processes can be reached, and says the same to all. Who dies before that is started again, as long
//! as there are restarts.

use weft::launch::Rebuilt;

/// What the launcher is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Kill a process, should it still run: it has been replaced, and nothing is heard of it any more.
    Kill {
        /// Its number.
        number: u32,
    },
    /// Start a rank again.
    Start {
        /// The rank to start.
        rank: u32,
        /// The number of the new process.
        number: u32,
        /// The facts that the new process is told.
        told: String,
    },
    /// Answer the ranks that have asked under the number `asked`: with the ranks and the process numbers of
    /// the new processes, or that there are none.
    Answer {
        /// The number under which the ranks have asked.
        asked: u64,
        /// Rank and process number of each new process; `None` where there are none.
        new: Option<Vec<(u32, u32)>>,
    },
}

/// How the ranks of a job are started again.
#[derive(Debug)]
pub struct Rebuilding {
    /// The number of the process in each rank, and how often there was another one before.
    members: Vec<(u32, u32)>,
    restarts_left: u32,
    /// The number of the next process.
    next: u32,
    under_way: Option<Request>,
    answered: Vec<u64>,
    /// Processes that nobody waits for any more.
    forsaken: Vec<u32>,
}

#[derive(Debug)]
struct Request {
    asked: u64,
    facts: String,
    new: Vec<Newcomer>,
}

#[derive(Debug)]
struct Newcomer {
    rank: u32,
    number: u32,
    is_ready: bool,
}

impl Rebuilding {
    /// Nobody was started again yet.
    pub fn new(ranks: u32, restarts: u32) -> Rebuilding {
        Rebuilding {
            members: (0..ranks).map(|rank| (rank, 0)).collect(),
            restarts_left: restarts,
            next: ranks,
            under_way: None,
            answered: Vec::new(),
            forsaken: Vec::new(),
        }
    }

    /// Somebody asks for processes in the place of the dead, as others may have done before.
    pub fn ask(&mut self, asked: u64, ranks: &[u32], facts: String) -> Vec<Step> {
        let is_under_way = self.under_way.as_ref().is_some_and(|request| request.asked == asked);
        if is_under_way || self.answered.contains(&asked) {
            return Vec::new();
        }
        let is_nonsense = ranks.iter().any(|&rank| rank as usize >= self.members.len());
        if self.under_way.is_some() || is_nonsense || ranks.len() > self.restarts_left as usize {
            return vec![self.refuse(asked)];
        }
        let dead = ranks.iter().map(|&rank| self.members[rank as usize].0);
        let mut steps: Vec<Step> = dead.map(|number| Step::Kill { number }).collect();
        self.under_way = Some(Request { asked, facts, new: Vec::new() });
        ranks.iter().for_each(|&rank| steps.extend(self.start(rank)));
        steps
    }

    /// Nobody is started any more.
    pub fn start_no_more(&mut self) {
        self.restarts_left = 0;
    }

    /// A new process can be reached.
    pub fn ready(&mut self, number: u32) -> Vec<Step> {
        let Some(request) = &mut self.under_way else { return Vec::new() };
        let found = request.new.iter_mut().find(|newcomer| newcomer.number == number);
        found.into_iter().for_each(|newcomer| newcomer.is_ready = true);
        if !request.new.iter().all(|newcomer| newcomer.is_ready) {
            return Vec::new();
        }
        let asked = request.asked;
        let new: Vec<(u32, u32)> =
            request.new.iter().map(|newcomer| (newcomer.rank, newcomer.number)).collect();
        for &(rank, number) in &new {
            self.members[rank as usize].0 = number;
        }
        self.under_way = None;
        self.answered.push(asked);
        vec![Step::Answer { asked, new: Some(new) }]
    }

    /// A process could not be started; what was to be done after that is not.
    pub fn not_started(&mut self, number: u32) -> Vec<Step> {
        self.next = number;
        if let Some(request) = &mut self.under_way {
            request.new.retain(|newcomer| newcomer.number < number);
        }
        self.give_up()
    }

    /// A process has ended. `None` where it is none that others wait for here.
    pub fn ended(&mut self, number: u32) -> Option<Vec<Step>> {
        if self.forsaken.contains(&number) {
            return Some(Vec::new());
        }
        let request = self.under_way.as_mut()?;
        let at = request.new.iter().position(|newcomer| newcomer.number == number)?;
        let Newcomer { rank, .. } = request.new.remove(at);
        let again = self.start(rank);
        Some(if again.is_empty() { self.give_up() } else { again })
    }

    /// Starts a rank again, if that is allowed once more.
    fn start(&mut self, rank: u32) -> Vec<Step> {
        let Some(left) = self.restarts_left.checked_sub(1) else { return Vec::new() };
        let Some(request) = &mut self.under_way else { return Vec::new() };
        self.restarts_left = left;
        let number = self.next;
        self.next += 1;
        request.new.push(Newcomer { rank, number, is_ready: false });
        let (facts, asked) = (request.facts.clone(), request.asked);
        let incarnation = &mut self.members[rank as usize].1;
        *incarnation += 1;
        let incarnation = *incarnation;
        let members = (0..).zip(self.members.iter().map(|(number, _)| *number));
        let moved = members.filter(|(rank, number)| rank != number).collect();
        let told = Rebuilt { incarnation, number, asked, facts, moved }.encode();
        vec![Step::Start { rank, number, told }]
    }

    fn give_up(&mut self) -> Vec<Step> {
        let Some(request) = self.under_way.take() else { return Vec::new() };
        let numbers = request.new.iter().map(|newcomer| newcomer.number);
        let mut steps: Vec<Step> = numbers.clone().map(|number| Step::Kill { number }).collect();
        self.forsaken.extend(numbers);
        steps.push(self.refuse(request.asked));
        steps
    }

    fn refuse(&mut self, asked: u64) -> Step {
        self.answered.push(asked);
        Step::Answer { asked, new: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(rank: u32, number: u32, told: &str) -> Step {
        Step::Start { rank, number, told: told.to_owned() }
    }

    fn ask(job: &mut Rebuilding, asked: u64, ranks: &[u32]) -> Vec<Step> {
        job.ask(asked, ranks, "f".to_owned())
    }

    #[test]
    fn r9_a_rank_is_started_again_once_whoever_asks() {
        let mut job = Rebuilding::new(4, 3);
        let steps = ask(&mut job, 10, &[1, 3]);
        let killed = [Step::Kill { number: 1 }, Step::Kill { number: 3 }];
        assert_eq!(steps[..2], killed);
        assert_eq!(steps[2..], [started(1, 4, "1;4;a;f;"), started(3, 5, "1;5;a;f;")]);
        assert_eq!(ask(&mut job, 10, &[1, 3]), []);
        assert_eq!(job.ready(5), []);
        let new = Some(vec![(1, 4), (3, 5)]);
        assert_eq!(job.ready(4), [Step::Answer { asked: 10, new }]);
        assert_eq!(ask(&mut job, 10, &[1, 3]), [], "who asks late finds the answer");
        assert_eq!(job.ended(4), None, "it is a member as any other now");
        let steps = ask(&mut job, 11, &[3]);
        assert_eq!(steps, [Step::Kill { number: 5 }, started(3, 6, "2;6;b;f;1:4,3:5")]);
    }

    #[test]
    fn r11_who_dies_on_the_way_is_started_again_as_long_as_that_is_allowed() {
        let mut job = Rebuilding::new(3, 3);
        ask(&mut job, 1, &[0, 2]);
        assert_eq!(job.ready(3), []);
        assert_eq!(job.ended(4), Some(vec![started(2, 5, "2;5;1;f;")]));
        let refused = Step::Answer { asked: 1, new: None };
        assert_eq!(job.ended(5), Some(vec![Step::Kill { number: 3 }, refused]));
        assert_eq!(job.ended(3), Some(Vec::new()), "nobody waits for it");
        assert_eq!(job.ended(0), None);
        assert_eq!(ask(&mut job, 2, &[1]), [Step::Answer { asked: 2, new: None }]);
    }

    #[test]
    fn r11_where_one_cannot_be_started_none_is() {
        let mut job = Rebuilding::new(3, 5);
        ask(&mut job, 1, &[0, 1, 2]);
        let refused = Step::Answer { asked: 1, new: None };
        assert_eq!(job.not_started(4), [Step::Kill { number: 3 }, refused]);
        assert_eq!(job.ended(3), Some(Vec::new()));
        assert_eq!(ask(&mut job, 2, &[1])[1], started(1, 4, "2;4;2;f;"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut job = Rebuilding::new(2, 4);
        assert_eq!(ask(&mut job, 1, &[2]), [Step::Answer { asked: 1, new: None }]);
        assert_eq!(ask(&mut job, 2, &[0, 1, 0, 1, 0]), [Step::Answer { asked: 2, new: None }]);
        ask(&mut job, 3, &[1]);
        assert_eq!(ask(&mut job, 4, &[0]), [Step::Answer { asked: 4, new: None }]);
        assert_eq!(job.ready(9), []);
    }
}
