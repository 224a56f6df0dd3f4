//! A lost GPU device: the model is loaded again onto another, and whoever was being answered never notices. Conversations are tokens; their
//! caches are made again from these when they have their turn (`decode/rebuild.rs`).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::load::{compile, gpu_options, upload};
use super::{Engine, Info, LoadOptions};
use crate::base::{Cancel, Progress, now_ms, sleep};
use crate::decode::{Outcome, Timings};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Checkpoint;
use crate::gpu::{Gpu, Loss};
use crate::source::Files;

/// How soon after a loss another is an error, ms: a device that goes every few seconds goes because of what it is asked to do.
const INTERVAL_MS: f64 = 60_000.0;
/// Waits before each attempt to get another device, ms: a GPU process that crashed needs a moment to come back.
const TRIES_MS: [f64; 9] = [0.0, 100.0, 200.0, 400.0, 800.0, 1500.0, 2000.0, 2000.0, 3000.0];

/// What happens to an engine's device.
pub enum DeviceEvent<'a> {
    /// It was lost. `recovering`: whether another is being opened, or the engine has given up and its generations fail.
    Lost {
        /// How.
        loss: &'a Loss,
        /// Whether it comes back by itself.
        recovering: bool,
    },
    /// Another has taken its place: all conversations go on.
    Restored {
        /// How long that took, ms.
        ms: f64,
        /// What the engine is now.
        info: Box<Info>,
    },
}

/// The device that an engine has at the moment, for those who do not have the engine.
#[derive(Clone)]
pub struct Device(Rc<RefCell<Weak<Gpu>>>);

impl Device {
    fn gpu(&self) -> Option<Rc<Gpu>> {
        self.0.borrow().upgrade()
    }

    /// Waits until it is lost: how, or `None` where its owner destroys it first.
    pub fn lost(&self) -> impl Future<Output = Option<Loss>> + use<> {
        let lost = self.gpu().map(|gpu| gpu.lost());
        async move { lost?.await }
    }

    /// Whether both are the same device.
    pub fn is(&self, gpu: &Weak<Gpu>) -> bool {
        self.0.borrow().ptr_eq(gpu)
    }

    /// What tells it from those that come after it.
    pub fn current(&self) -> Weak<Gpu> {
        self.0.borrow().clone()
    }

    /// Destroys it, as somebody else would: for tests.
    pub fn lose(&self) {
        if let Some(gpu) = self.gpu() {
            gpu.lose();
        }
    }

    /// Refuses buffers as a GPU without memory does; `None`: no longer. For tests.
    #[cfg(feature = "lab")]
    pub fn refuse_buffers(&self, refuse: Option<crate::gpu::Refuse>) {
        if let Some(gpu) = self.gpu() {
            gpu.refuse_buffers(refuse);
        }
    }

    /// Buffers that were made until now, and the most bytes that were there at one time since this was last asked. For tests.
    #[cfg(feature = "lab")]
    pub fn buffers(&self) -> (u64, u64) {
        self.gpu().map_or((0, 0), |gpu| (gpu.counters().snapshot().buffers, gpu.counters().take_peak()))
    }
}

/// Who hears of an engine's device.
pub type Listener = dyn Fn(DeviceEvent<'_>);

/// What recovering needs, and how the device is.
pub(super) struct Recovery {
    files: Files,
    device: Device,
    health: Health,
    /// When the last loss was noticed.
    last: Option<f64>,
    listener: Option<Rc<Listener>>,
}

#[derive(Clone)]
enum Health {
    /// As far as is known.
    Well,
    /// Lost and to be replaced.
    Lost,
    /// Lost since then, and for a while not replaced, for that reason.
    GivenUp(f64, String),
}

impl Recovery {
    pub(super) fn new(files: &Files, gpu: &Rc<Gpu>) -> Self {
        let device = Device(Rc::new(RefCell::new(Rc::downgrade(gpu))));
        Self { files: files.clone(), device, health: Health::Well, last: None, listener: None }
    }

    fn tell(&self, event: DeviceEvent<'_>) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

/// The losses of one piece of work.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) count: u32,
    /// Time that they have cost and that no outcome has yet, ms.
    pub(super) ms: f64,
}

impl Losses {
    /// Puts the time to what has been sampled, if anything has.
    pub(super) fn charge(&mut self, outcome: &mut Outcome) {
        if !outcome.tokens.is_empty() {
            outcome.timings.decode_ms += std::mem::take(&mut self.ms);
        }
    }

    /// A first part whose tokens had to wait so long.
    pub(super) fn charged(&mut self, part: Outcome) -> Outcome {
        let ms = std::mem::take(&mut self.ms);
        let Timings { prefill_ms, ttft_ms, .. } = part.timings;
        Outcome { timings: Timings { prefill_ms: prefill_ms + ms, ttft_ms: ttft_ms + ms, ..part.timings }, ..part }
    }
}

impl Engine {
    /// The device that the engine has at any moment.
    pub fn device(&self) -> Device {
        self.recovery.device.clone()
    }

    /// Who hears of losses and recoveries.
    pub fn on_device(&mut self, listener: Rc<Listener>) {
        self.recovery.listener = Some(listener);
    }

    /// Where the model's files are from now on: a device that is lost is given its weights from there.
    pub fn keep_files(&mut self, files: &Files) {
        self.recovery.files = files.clone();
    }

    /// As if the last loss were long ago: for tests, which would have to wait a minute.
    pub fn forget_losses(&mut self) {
        self.recovery.last = None;
        if let Health::GivenUp(since, _) = &mut self.recovery.health {
            *since = f64::NEG_INFINITY;
        }
    }

    /// The error of a lost device, if it is lost.
    pub fn lost(&self) -> Option<Error> {
        self.session.gpu().check().err().filter(|e| e.kind() == ErrorKind::DeviceLost)
    }

    /// Opens another device if this one is lost, and loads the model onto it: for idle time. A generation does so by itself.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceLost`] where this is the second loss within a minute, or there is no other device.
    pub async fn recover(&mut self, cancel: &Cancel) -> Result<()> {
        match self.lost() {
            Some(lost) => self.survive(lost, &mut Losses::default(), &|_| (), cancel).await,
            None => Ok(()),
        }
    }

    /// Recovers if `error` comes from the loss of the device, so that what failed can be done again. Any other error comes back.
    pub(super) async fn survive(&mut self, error: Error, losses: &mut Losses, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        let Some(loss) = self.session.gpu().loss().filter(|_| may_be_loss(&error)) else {
            if error.kind() == ErrorKind::OutOfMemory {
                self.session.go_on_without().await;
            }
            return Err(error);
        };
        let now = now_ms();
        let interval = self.interval_ms();
        let recent = |since: f64| now - since < interval;
        self.recovery.health = match std::mem::replace(&mut self.recovery.health, Health::Lost) {
            Health::Well if self.recovery.last.replace(now).is_some_and(recent) => {
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: false });
                Health::GivenUp(now, lost_again(&loss, interval))
            }
            Health::Well => {
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: true });
                Health::Lost
            }
            Health::GivenUp(since, _) if !recent(since) => {
                self.recovery.last = Some(now);
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: true });
                Health::Lost
            }
            // Nothing new; an attempt that was cancelled is made again.
            health => health,
        };
        if let Health::GivenUp(_, why) = &self.recovery.health {
            return Err(Error::new(ErrorKind::DeviceLost, why.clone()));
        }
        match self.replace_device(progress, cancel).await {
            Ok(()) => {
                let ms = now_ms() - now;
                losses.count += 1;
                losses.ms += ms;
                self.recovery.health = Health::Well;
                self.recovery.tell(DeviceEvent::Restored { ms, info: Box::new(self.info()) });
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Aborted => Err(e),
            Err(e) => {
                let message = format!("the GPU device was lost ({loss}) and the model could not be loaded onto another: {e}; load the model again");
                self.recovery.health = Health::GivenUp(now_ms(), message.clone());
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: false });
                Err(Error::new(ErrorKind::DeviceLost, message).with_source(e))
            }
        }
    }

    /// How soon after a loss another is an error, in ms.
    fn interval_ms(&self) -> f64 {
        #[cfg(feature = "lab")]
        if let Some(planted) = self.options.faults.loss_interval_ms {
            return planted;
        }
        INTERVAL_MS
    }

    /// Does `work`, again on another device each time that one is lost meanwhile. Any other error comes back.
    pub(super) async fn surviving<T>(
        &mut self,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
        mut work: impl AsyncFnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut losses = Losses::default();
        loop {
            match work(self).await {
                Err(e) => self.survive(e, &mut losses, progress, cancel).await?,
                done => return done,
            }
        }
    }

    /// Loads the model onto another device, with the same kernels, and hands the conversations over.
    async fn replace_device(&mut self, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        self.recovery.files.values().for_each(|file| file.will_be_read());
        let gpu = Rc::new(open_again(&self.options, cancel).await?);
        let checkpoint = Checkpoint::open(&self.recovery.files).await?;
        if checkpoint.fingerprint().await? != self.fingerprint {
            return Err(Error::storage("the model's files have changed since they were loaded"));
        }
        cancel.check()?;
        let mut tuning = self.options.tuning.clone();
        self.remember(&mut tuning);
        let options = LoadOptions { tuning, ..self.options.clone() };
        // What was found out about one device says nothing about another.
        let (old, new) = (self.session.gpu().caps(), gpu.caps());
        let same = (&old.name, &old.features, old.subgroup, old.native_halves) == (&new.name, &new.features, new.subgroup, new.native_halves);
        let decided = same.then(|| self.session.decided());
        let (mut session, self_test) = compile(&checkpoint, &options, Some(self.tokenizer.vocab_size()), gpu, decided, progress).await?;
        upload(&checkpoint, &session, progress, cancel).await?;
        session.gpu().check()?;
        session.set_adapters(&self.fitted_adapters()).await?;
        let lost = std::mem::replace(&mut self.session, session);
        self.session.take_over(lost)?;
        if !same {
            self.self_test = self_test;
        }
        *self.recovery.device.0.borrow_mut() = Rc::downgrade(self.session.gpu());
        Ok(())
    }
}

fn lost_again(loss: &Loss, interval_ms: f64) -> String {
    format!(
        "the GPU device was lost twice within {:.0} s ({loss}), so the engine does not go on by itself; load the model again, and if that does not help \
         close other tabs and programs that use the GPU, use a smaller model or context, or update the graphics driver",
        interval_ms / 1000.0
    )
}

/// Whether the loss of a device can look like this.
pub(super) fn may_be_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::Gpu | ErrorKind::OutOfMemory | ErrorKind::Internal)
}

pub(super) async fn open_again(options: &LoadOptions, cancel: &Cancel) -> Result<Gpu> {
    let mut failure = Error::new(ErrorKind::NoAdapter, "no GPU");
    for wait in TRIES_MS {
        sleep(wait).await;
        cancel.check()?;
        match Gpu::open(&gpu_options(options)).await {
            Ok(gpu) => return Ok(gpu),
            // One that goes at once goes with the process that crashed.
            Err(e) if matches!(e.kind(), ErrorKind::NoAdapter | ErrorKind::DeviceLost | ErrorKind::Gpu) => failure = e,
            Err(e) => return Err(e),
        }
    }
    Err(failure)
}
