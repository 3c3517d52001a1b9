// The samples of a worker's next batch, copied to its GPU while the worker computes on the batch before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/devices/side_stream.h"
#include "base/mutex.h"
#include "trireme/dataset.h"
#include "trireme/placement.h"

namespace trireme {

/// A worker requests the same ranges of samples of every batch of one kind. So a thread of this class loads and copies,
/// of the next batch, the ranges that the worker requested of the latest batch of the same kind. The functions are
/// called by the worker's thread.
class CopiesAhead {
 public:
  /// Loads samples of one batch into memory of the host, which is pinned if `pinned`. Called by the thread of this
  /// class, and by take() for ranges that were not copied.
  using Load = std::function<std::vector<at::Tensor>(Range range, bool pinned)>;
  /// Batches of one kind: of one data set, with as many samples.
  using Kind = std::pair<const Dataset*, int64_t>;

  /// `device`: the worker's.
  explicit CopiesAhead(int device);
  /// Waits until the thread has finished a load that it has begun.
  ~CopiesAhead();
  CopiesAhead(const CopiesAhead&) = delete;
  CopiesAhead& operator=(const CopiesAhead&) = delete;

  /// Begins to copy batch `number`, the batch after the one that the worker uses next. First waits until that earlier
  /// batch is copied.
  void begin(int64_t number, const Kind& kind, Load load);
  /// Returns the tensors of a range of batch `number`: if the range was copied, the copies, which are on the device;
  /// else what `load` returns, in memory of the host. Rethrows an exception of the thread.
  std::vector<at::Tensor> take(int64_t number, const Kind& kind, Range range, const Load& load);

 private:
  struct Copy {
    Range range;
    std::vector<at::Tensor> tensors;
    EarlierWork work;  ///< the copying, which may still be in progress
  };
  struct Task {
    int64_t number = 0;
    std::vector<Range> ranges;
    Load load;
  };
  /// What has been copied of a batch.
  struct Copied {
    int64_t number = -1;
    std::vector<Copy> copies = {};
    std::exception_ptr error = nullptr;  ///< the exception that ended the copying
  };
  void work(int device);
  std::vector<Copy> carry_out(const Task& task) const;
  void note(int64_t number, const Kind& kind, Range range);
  std::vector<at::Tensor> take_copy(Copied& copied, Range range) const;

  std::map<Kind, std::vector<Range>> requested_;  ///< of the last batch of each kind
  int64_t noted_ = -1;                            ///< the batch whose requests were noted last
  Copied used_;                                   ///< the batch before the newest task's

  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<Task> task_ TRIREME_GUARDED_BY(mutex_);  ///< not begun yet
  bool done_ TRIREME_GUARDED_BY(mutex_) = true;          ///< the newest task has ended
  Copied newest_ TRIREME_GUARDED_BY(mutex_);             ///< of the newest task; its copies are there when it has ended
  bool ending_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trireme
