// Records which runners have arrived at which exchange in modelled time. A runner may be lost in the middle; the others
// then complete its exchanges without it.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/local/local_group.h"
#include "comm/virtual/duplex_links.h"
#include "comm/virtual/virtual_time.h"

namespace trireme {

/// One exchange, shared by the runners that arrive at it. `ready`, `finish` and `present` are valid once it is
/// complete.
struct Gathered {
  double ready = 0;                  ///< seconds: the last runner arrived, or an awaited one was lost
  double finish = 0;                 ///< seconds: the tensors have been transferred
  std::vector<int> present;          ///< the runners that arrived, ascending
  std::atomic<int64_t> complete{0};  ///< 1: the exchange is complete

  // used by Attendance
  bool metered = true;
  Collective collective = Collective::all_reduce;
  std::vector<int> members;
  int missing = 0;                                 ///< members that have not arrived yet, without lost ones
  std::map<int, std::vector<at::Tensor>> brought;  ///< tensors by runner
};

/// Returns the bytes that leave member `index` of `members` members that each bring such a tensor (comm/formulas.h).
int64_t bytes_of_exchange(Collective collective, const at::Tensor& tensor, int members, int index);

/// Runners are 0 to n - 1; each has the connection of its number. Used only by the runner that has the turn.
class Attendance {
 public:
  /// `time` and `links` must outlive it. `kind` is the runners' name in messages.
  Attendance(VirtualTime& time, DuplexLinks& links, std::string kind)
      : time_(time), links_(links), kind_(std::move(kind)) {}

  /// Describes an exchange. Exchanges of one queue and one set of members are matched in the order in which each member
  /// arrives. `control` takes no time on the links. The other queues take one collective per tensor.
  struct What {
    enum class Queue { control, exchange, meanwhile } queue = Queue::exchange;
    Collective collective = Collective::all_reduce;
    bool metered = true;  ///< false: it takes no time on any clock
  };
  std::shared_ptr<Gathered> come(const What& what, std::vector<int> members, int runner,
                                 std::vector<at::Tensor> tensors = {});
  /// Waits until all members have arrived. The caller's clock then shows `ready`, or is unchanged if the exchange is
  /// not metered.
  void wait(Gathered& exchange);
  /// Declares that `runner` will arrive at no further exchange. It must not be waiting in one.
  void lose(int runner);

 private:
  void complete(Gathered& exchange);

  using Key = std::tuple<What::Queue, std::vector<int>, int64_t>;
  VirtualTime& time_;
  DuplexLinks& links_;
  const std::string kind_;
  std::set<int> lost_;
  std::map<Key, std::shared_ptr<Gathered>> open_;
  std::map<std::tuple<What::Queue, std::vector<int>, int>, int64_t> calls_;  ///< number of exchanges so far, by runner
};

}  // namespace trireme
