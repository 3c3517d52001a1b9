// Who comes to which exchange in virtual time, where runners may be lost in the middle and leave their exchanges to the
// others.
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

/// One exchange, shared by those who come to it. `ready`, `finish` and `present` hold once it is complete.
struct Gathered {
  double ready = 0;                  ///< the last one came, or one that was awaited was lost
  double finish = 0;                 ///< the tensors are through
  std::vector<int> present;          ///< who came, ascending
  std::atomic<int64_t> complete{0};  ///< 1: all have come

  // of Attendance
  bool metered = true;
  Collective collective = Collective::all_reduce;
  std::vector<int> members;
  int missing = 0;                                 ///< members to come, without those that are lost
  std::map<int, std::vector<at::Tensor>> brought;  ///< by runner
};

/// Bytes that leave member `index` of so many who bring such a tensor: comm/formulas.h.
int64_t bytes_of_exchange(Collective collective, const at::Tensor& tensor, int members, int index);

/// Runners are 0 to n - 1, each with a connection of that number. Belongs to the runner that has the turn.
class Attendance {
 public:
  /// `time` and `links` outlive it. `kind`: what the runners are, for messages.
  Attendance(VirtualTime& time, DuplexLinks& links, std::string kind)
      : time_(time), links_(links), kind_(std::move(kind)) {}

  /// Exchanges of one queue and one set of members are matched in the order in which each member comes. `barrier`: an
  /// agreement, which takes no time Exchanges of one queue and one set of members are matched in the order in which
  /// each member comes. An agreement takes no time on the links, the others take a collective for each of the tensors.
  struct What {
    enum class Queue { agreement, exchange, meanwhile } queue = Queue::exchange;
    Collective collective = Collective::all_reduce;
    bool metered = true;  ///< false: it takes no time of anybody's clock
  };
  std::shared_ptr<Gathered> come(const What& what, std::vector<int> members, int runner,
                                 std::vector<at::Tensor> tensors = {});
  /// Until all have come: the caller's clock shows `ready` then, or what it showed where the exchange is not metered.
  void wait(Gathered& exchange);
  /// The runner, which has come to no exchange that it would wait in, comes to none any more.
  void lose(int runner);

 private:
  void complete(Gathered& exchange);

  using Key = std::tuple<What::Queue, std::vector<int>, int64_t>;
  VirtualTime& time_;
  DuplexLinks& links_;
  const std::string kind_;
  std::set<int> lost_;
  std::map<Key, std::shared_ptr<Gathered>> open_;
  std::map<std::tuple<What::Queue, std::vector<int>, int>, int64_t> calls_;  ///< by runner
};

}  // namespace trireme
