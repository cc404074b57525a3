//! What may go wrong on a simulated network, and how often.

/// What the dice decide, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Start of the random numbers; printed by every test that fails.
    pub seed: u64,
    /// A message waits at most this many polls before it can be seen.
    pub delay_polls_max: u64,
    /// Out of 100 posts, so many are answered Busy.
    pub busy_percent: u64,
    /// Out of 100 posts of more than one byte, so many are taken only partly.
    pub partly_percent: u64,
    /// Out of 100 messages with payload, so many arrive in chunks.
    pub chunks_percent: u64,
    /// Out of 100 pulls, so many are refused.
    pub refuse_percent: u64,
    /// Out of 100 pulls that are not refused, so many end later.
    pub later_percent: u64,
    /// Out of 100 pulls, so many are shared with the sender.
    pub share_percent: u64,
    /// Out of 100 peers that hear of a death, so many lose what was still on its way to them from there.
    pub cut_percent: u64,
    /// Out of 100 messages that are longer than what lanes call eager, so many are better sent at once all
    /// the same.
    pub at_once_percent: u64,
    /// Whether lanes offer to pull.
    pub pull: bool,
    /// What lanes call eager.
    pub eager_bytes_max: usize,
    /// What lanes call a chunk.
    pub chunk_bytes_max: usize,
    /// Messages to one receiver that may be under way before posts are answered Busy.
    pub queue_messages_max: usize,
}

impl Weather {
    /// Nothing unusual: no delay, never busy, all whole.
    #[must_use]
    pub fn fair() -> Weather {
        Weather {
            seed: 0,
            delay_polls_max: 0,
            busy_percent: 0,
            partly_percent: 0,
            chunks_percent: 0,
            refuse_percent: 0,
            later_percent: 0,
            share_percent: 0,
            cut_percent: 0,
            at_once_percent: 0,
            pull: true,
            eager_bytes_max: 4096,
            chunk_bytes_max: 1024,
            queue_messages_max: 4096,
        }
    }

    /// Everything at once, by the seed.
    #[must_use]
    pub fn storm(seed: u64) -> Weather {
        Weather {
            seed,
            delay_polls_max: 40,
            busy_percent: 20,
            partly_percent: 20,
            chunks_percent: 40,
            refuse_percent: 30,
            later_percent: 50,
            share_percent: 60,
            cut_percent: 30,
            at_once_percent: 40,
            pull: seed.is_multiple_of(2),
            eager_bytes_max: 64,
            chunk_bytes_max: 700,
            queue_messages_max: 32,
        }
    }
}
