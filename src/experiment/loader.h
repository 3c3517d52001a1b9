// Gives the workers of a run their global batches. They are loaded ahead of training by threads of the loader, or by
// the workers themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "experiment/copies_ahead.h"
#include "runtime/step.h"
#include "trireme/dataset.h"

namespace trireme {

/// A global batch before its samples are loaded.
struct PlannedBatch {
  std::shared_ptr<const Dataset> set;
  std::vector<int64_t> indices;
  Draw draw = {};
  std::shared_ptr<const Model> model = {};  ///< Batch::model
};

struct LoaderOptions {
  int threads = 0;  ///< 0: workers load their own samples when they need them
  int readers = 1;  ///< number of workers; each takes every batch
  /// Largest size of batches that no worker has taken yet. One batch is loaded ahead whatever its size.
  int64_t ahead_bytes = int64_t{256} << 20;
  /// Returns which samples of a batch of `samples` the readers of this process request; only those are loaded ahead.
  /// Empty: all.
  std::function<std::vector<Range>(int64_t samples)> wanted = {};
  /// By reader: the device of its worker, to which the samples are copied one batch ahead. Empty: samples stay in
  /// memory of the host.
  std::vector<int> devices = {};
};

/// The threads load batches in the order of `plan`, a few samples at a time, and hold each batch until every reader has
/// taken it. The contents of a batch depend on its plan only: neither the number of threads nor their speed changes a
/// result.
///
/// Thread-safe: each reader calls `take` from its own thread. `plan` is called by one thread at a time; nullopt ends
/// the run's batches. An exception that a dataset throws is rethrown to the readers that need the samples, and loading
/// stops.
class Loader {
 public:
  /// `stop_reason` is called while a reader waits. A text ends the wait with a run error that contains it
  /// ("interrupted").
  Loader(std::function<std::optional<PlannedBatch>()> plan, const LoaderOptions& options,
         std::function<std::string()> stop_reason);
  ~Loader();  ///< ends the threads; batches that were taken stay valid until they must load
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Returns the reader's next batch. The tensors that its `load` returns belong to the caller: they are in memory of
  /// the host or, if they were copied ahead, of its device.
  Batch take(int reader);

  /// Returns the seconds that the reader spent in `load` since the last call: in loading, or in waiting for the threads
  /// and copying.
  double take_load_seconds(int reader);

  /// Ends the threads. A reader that waits then waits for `stop_reason`. Idempotent.
  void stop();

 private:
  struct Chunk;
  struct Loading;

  std::shared_ptr<Loading> next_for(int reader);
  void copy_ahead(int reader);
  bool plan_one() TRIREME_REQUIRES(mutex_);
  bool may_load_ahead() const TRIREME_REQUIRES(mutex_);
  bool claim(std::shared_ptr<Loading>& batch, size_t& chunk) TRIREME_REQUIRES(mutex_);
  void work();
  std::vector<at::Tensor> collect(Loading& batch, Range range, bool pinned, bool until_stopped);
  void await(Loading& batch, size_t first, size_t end, bool until_stopped);

  const std::function<std::optional<PlannedBatch>()> plan_;
  const LoaderOptions options_;
  const std::function<std::string()> stop_reason_;
  std::vector<double> load_seconds_;  ///< by reader, each written by its own thread

  Mutex mutex_;
  ConditionVariable work_changed_;    ///< notifies the threads: a chunk to claim, or the end
  ConditionVariable chunks_changed_;  ///< notifies readers: a chunk is loaded, or failed
  /// Planned and not yet taken by all readers.
  std::deque<std::shared_ptr<Loading>> batches_ TRIREME_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Loading>> to_load_ TRIREME_GUARDED_BY(mutex_);  ///< with chunks that no thread has begun
  int64_t first_ TRIREME_GUARDED_BY(mutex_) = 0;                             ///< number of batches_.front()
  std::vector<int64_t> taken_ TRIREME_GUARDED_BY(mutex_);                    ///< by reader: number of its next batch
  int64_t bytes_per_sample_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< of the chunk loaded last; 0: not known yet
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;            ///< there are no more plans
  std::exception_ptr plan_error_ TRIREME_GUARDED_BY(mutex_);
  bool stopping_ TRIREME_GUARDED_BY(mutex_) = false;  ///< threads end: stop() was called, or samples cannot be loaded
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;   ///< stop() was called

  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<CopiesAhead>> copies_;  ///< by reader; empty without LoaderOptions::devices
};

}  // namespace trireme
