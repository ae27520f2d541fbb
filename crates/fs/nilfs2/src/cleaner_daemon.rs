//! The daemon that cleans: when, and which segments.
//!
//! `nilfs_cleanerd` runs outside the kernel; `mount.nilfs2` starts it and `umount.nilfs2` ends it.
//! Source: `sbin/cleanerd/cleanerd.c` of nilfs-utils 2.2, whose loop the first daemons share but for the
//! limits; names and defaults of the settings: `nilfs_cleanerd.conf`. Left out: commands of
//! `nilfs-clean`, and the smaller steps taken when the kernel lacks memory.
//!
//! May use: `cleaner`, `cleaner_settings`, `engine`, `file_system`.

use crate::cleaner::Reclaimed;
use crate::cleaner_settings::CleanerSettings;
use crate::engine::Engine;
use crate::file_system::Nilfs2;
use fs_api::{Errno, FileSystem};

const SECOND_NS: u64 = 1_000_000_000;

/// State of the daemon between two looks (`struct nilfs_cleanerd`).
struct Daemon<'e> {
    engine: &'e Engine,
    settings: CleanerSettings,
    is_cleaning: bool,
    /// When users last changed something, as of the last look.
    changed_s: u64,
    /// The next cleaning is due.
    target_ns: u64,
    timeout_ns: u64,
    segments: usize,
    interval_ns: u64,
    min_reclaimable_percent: u64,
    /// The superblocks were brought up to date because recovery needed all that was chosen.
    is_retry: bool,
}

impl Nilfs2 {
    /// Starts the daemon, which runs until the file system is unmounted.
    pub fn start_cleaner(&self, settings: CleanerSettings) {
        let fs = self.clone();
        let sim = &self.engine.sim;
        // A process of its own, whose reads and logs the scheduler sees apart. It is one of user space, but
        // its number must not be that of a process of the workload.
        sim.spawn_as(sim.kernel_thread(), "nilfs_cleanerd", async move {
            // A daemon that meets an error ends; the file system lives on.
            let _ = fs.run_cleaner(settings).await;
        });
    }

    /// The daemon itself; it ends with the mount or an error.
    async fn run_cleaner(&self, settings: CleanerSettings) -> Result<(), Errno> {
        let switch = &self.engine.cleaner;
        switch.is_running.set(true);
        let ended = self.clean_until_asked(settings).await;
        switch.is_running.set(false);
        switch.ended.wake_all();
        ended
    }

    /// Ends the daemon; a cleaning that has begun is finished before (`umount.nilfs2`).
    pub(crate) async fn stop_cleaner(&self) {
        let switch = &self.engine.cleaner;
        switch.is_asked_to_end.set(true);
        switch.timer.arm(self.engine.sim.now());
        switch.ended.wait_until(|| !switch.is_running.get()).await;
    }

    async fn clean_until_asked(&self, settings: CleanerSettings) -> Result<(), Errno> {
        let engine = &*self.engine;
        let mut daemon = Daemon::new(engine, settings);
        while !engine.cleaner.is_asked_to_end.get() {
            if daemon.is_due() {
                engine.may_write()?;
                let (chosen, oldest_s) = daemon.choose().await?;
                if engine.cleaner.is_asked_to_end.get() {
                    return Ok(());
                }
                let done = daemon.clean(&chosen).await?;
                if done == Some(Reclaimed::Protected) && daemon.may_retry() {
                    // `nilfs_shrink_protected_region`: the superblocks shall point to a newer log.
                    self.sync().await?;
                }
                daemon.plan(done, oldest_s);
            }
            engine.cleaner.timer.arm(engine.sim.now() + daemon.timeout_ns);
            engine.cleaner.timer.fired().await;
        }
        Ok(())
    }
}

impl<'e> Daemon<'e> {
    fn new(engine: &'e Engine, settings: CleanerSettings) -> Self {
        let interval_ns = settings.cleaning_interval_s * SECOND_NS;
        Self {
            engine,
            settings,
            is_cleaning: settings.min_clean_percent == 0,
            changed_s: 0,
            target_ns: engine.sim.now() + interval_ns,
            timeout_ns: settings.clean_check_interval_s * SECOND_NS,
            segments: settings.segments_per_clean,
            interval_ns,
            min_reclaimable_percent: settings.min_reclaimable_percent,
            is_retry: false,
        }
    }

    /// Whether it cleans now (`nilfs_cleanerd_check_state`).
    fn is_due(&mut self) -> bool {
        if self.settings.min_clean_percent > 0 && !self.is_below_limits() {
            return false;
        }
        let changed_s = self.engine.position.get().written;
        // Sleeps until users change something: without new logs there is nothing new to clean.
        if !self.is_cleaning && changed_s != self.changed_s {
            self.is_cleaning = true;
            self.changed_s = changed_s;
        }
        self.is_cleaning
    }

    /// Whether clean segments are too few, and how fast to clean then
    /// (`nilfs_cleanerd_handle_clean_check`).
    fn is_below_limits(&mut self) -> bool {
        let (engine, settings) = (self.engine, &self.settings);
        let geometry = &engine.geometry;
        let limit =
            // Limits count on top of the reserve, which users cannot write to anyway.
            |percent: u64| (geometry.segments * percent).div_ceil(100) + geometry.reserved_segments;
        let clean = engine.clean_segments.get();
        let is_urgent = clean < limit(settings.min_clean_percent);
        // Two limits instead of one, so that the daemon does not start and stop around a single
        // value.
        if self.is_cleaning && clean > limit(settings.max_clean_percent) {
            self.is_cleaning = false;
            self.timeout_ns = settings.clean_check_interval_s * SECOND_NS;
        } else if !self.is_cleaning && is_urgent {
            self.is_cleaning = true;
        }
        let (segments, interval_s, percent) = if is_urgent {
            (
                settings.urgent_segments_per_clean,
                settings.urgent_cleaning_interval_s,
                settings.urgent_min_reclaimable_percent,
            )
        } else {
            (
                settings.segments_per_clean,
                settings.cleaning_interval_s,
                settings.min_reclaimable_percent,
            )
        };
        self.segments = segments;
        self.interval_ns = interval_s * SECOND_NS;
        self.min_reclaimable_percent = percent;
        self.is_cleaning
    }

    /// The oldest segments that the protection period does not keep, and when the oldest of all was
    /// written (`nilfs_cleanerd_select_segments`, policy "timestamp").
    async fn choose(&self) -> Result<(Vec<u64>, Option<u64>), Errno> {
        let now_s = self.engine.now_s();
        let protected_since_s = now_s.saturating_sub(self.settings.protection_period_s);
        let changed_s = self.engine.position.get().written;
        let (mut chosen, mut oldest_s) = (Vec::new(), None);
        for (written_s, segment) in self.engine.candidates().await? {
            // What the cleaner wrote after the last change of users holds nothing to be won.
            if written_s >= changed_s && written_s <= now_s {
                continue;
            }
            oldest_s = oldest_s.or(Some(written_s));
            // A time in the future comes from a clock that was set back; such segments would never
            // get old enough.
            if (written_s < protected_since_s || written_s > now_s) && chosen.len() < self.segments
            {
                chosen.push(segment);
            }
        }
        Ok((chosen, oldest_s))
    }

    async fn clean(&mut self, chosen: &[u64]) -> Result<Option<Reclaimed>, Errno> {
        if chosen.is_empty() {
            self.is_retry = false;
            return Ok(None);
        }
        let period_s = self.settings.protection_period_s;
        let done = self.engine.reclaim(chosen, period_s, self.min_reclaimable_percent).await?;
        if done != Reclaimed::Protected {
            self.is_retry = false;
        }
        Ok(Some(done))
    }

    /// Whether newer superblocks can help; the first daemons waited for others to write them.
    fn may_retry(&mut self) -> bool {
        // One retry: if a new superblock does not free the segments, another one will not either.
        self.is_retry = !self.is_retry && self.engine.options.profile.cleaner_has_limits;
        self.is_retry
    }

    /// When to look next (`nilfs_cleanerd_recalc_interval`).
    fn plan(&mut self, done: Option<Reclaimed>, oldest_s: Option<u64>) {
        let now_ns = self.engine.sim.now();
        let found_nothing = match done {
            None => true,
            Some(Reclaimed::Protected) => {
                !self.is_retry && self.engine.options.profile.cleaner_has_limits
            }
            Some(_) => false,
        };
        if found_nothing {
            let period_s = self.settings.protection_period_s;
            let wait_s = match oldest_s {
                None => {
                    self.is_cleaning = false;
                    period_s
                }
                // When the oldest segment leaves the protection period; one second more, because
                // times are whole seconds.
                Some(oldest_s) => (oldest_s + period_s).saturating_sub(self.engine.now_s()) + 1,
            };
            self.timeout_ns = wait_s.max(self.settings.clean_check_interval_s) * SECOND_NS;
        // Late or without work done: go on at once, and count the interval from now.
        } else if now_ns >= self.target_ns || done == Some(Reclaimed::Deferred) {
            self.timeout_ns = 0;
            self.target_ns = now_ns + self.interval_ns;
        } else {
            self.timeout_ns = self.target_ns - now_ns;
            self.target_ns += self.interval_ns;
        }
    }
}
