// Gives the workers of a run their global batches, loaded ahead of training by threads of its own or by the workers
// themselves.
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
#include "data/dataset.h"
#include "runtime/step.h"

namespace trireme {

/// A global batch before anything of it is loaded.
struct PlannedBatch {
  std::shared_ptr<const Dataset> set;
  std::vector<int64_t> indices;
  Draw draw = {};
  std::shared_ptr<const Model> model = {};  ///< Batch::model
};

struct LoaderOptions {
  int threads = 0;  ///< 0: workers load their own samples when they need them
  int readers = 1;  ///< workers, each of which takes every batch
  int64_t ahead_bytes =
      int64_t{256} << 20;  ///< of batches that no worker has taken yet; one batch is loaded ahead whatever its size
  /// Which samples of a batch of so many the readers of this process ask for; only those are loaded ahead. Empty: all.
  std::function<std::vector<Range>(int64_t samples)> wanted = {};
};

/// The threads load batches in the order of `plan`, a few samples at a time, and keep each until every reader has taken
/// it. What a batch holds depends on its plan only: neither the number of threads nor their speed changes a result.
///
/// Thread-safe: each reader calls `take` from its own thread. `plan` is called by one thread at a time, nullopt ends
/// the run's batches. What a dataset throws while samples are loaded is rethrown to the readers that need them, and
/// nothing more is loaded.
class Loader {
 public:
  /// `stop_reason`: asked while a reader waits; a text ends the wait with a run error that carries it ("interrupted").
  Loader(std::function<std::optional<PlannedBatch>()> plan, const LoaderOptions& options,
         std::function<std::string()> stop_reason);
  ~Loader();  ///< ends the threads; batches that were taken stay valid until they have to load
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The reader's next batch. The tensors that its `load` gives belong to the caller and are allocated by it.
  Batch take(int reader);

  /// Seconds that the reader has spent in `load` since the last call: loading itself, or waiting for the threads and
  /// copying.
  double take_load_seconds(int reader);

  /// Ends the threads; readers then wait for `stop_reason`. Idempotent.
  void stop();

 private:
  struct Chunk;
  struct Loading;

  std::shared_ptr<Loading> next_for(int reader);
  bool plan_one() TRIREME_REQUIRES(mutex_);
  bool may_load_ahead() const TRIREME_REQUIRES(mutex_);
  bool claim(std::shared_ptr<Loading>& batch, size_t& chunk) TRIREME_REQUIRES(mutex_);
  void work();
  std::vector<at::Tensor> collect(Loading& batch, Range range);
  void await(Loading& batch, size_t first, size_t end);

  const std::function<std::optional<PlannedBatch>()> plan_;
  const LoaderOptions options_;
  const std::function<std::string()> stop_reason_;
  std::vector<double> load_seconds_;  ///< by reader, each written by its own thread

  Mutex mutex_;
  ConditionVariable work_changed_;    ///< for the threads: something to claim, or the end
  ConditionVariable chunks_changed_;  ///< for readers: a chunk is there, or failed
  /// Planned and not yet taken by all readers.
  std::deque<std::shared_ptr<Loading>> batches_ TRIREME_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Loading>> to_load_ TRIREME_GUARDED_BY(mutex_);  ///< with chunks that no thread has begun
  int64_t first_ TRIREME_GUARDED_BY(mutex_) = 0;                             ///< number of batches_.front()
  std::vector<int64_t> taken_ TRIREME_GUARDED_BY(mutex_);                    ///< by reader: number of its next batch
  int64_t bytes_per_sample_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< of what was loaded last; 0: not known yet
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;            ///< there are no more plans
  std::exception_ptr plan_error_ TRIREME_GUARDED_BY(mutex_);
  bool stopping_ TRIREME_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace trireme
