// Backend `virtual`: real mathematics, modelled time. Workers are threads of one process that take turns in the order
// of their clocks (virtual_clock.h); computing and moving bytes take the seconds of a model, and no others. So what 64
// workers do, in which order and when is a function of their input.
//
// A world of this backend is a LocalWorld whose waits and transfers are on these clocks. What a worker computes between
// two calls happens at the moment that its clock shows at the first of them; who passes seconds says that computing
// took them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/local/local_group.h"
#include "comm/virtual/virtual_clock.h"

namespace trireme {

/// What a transfer asks of connections, by number: each is busy for so many seconds once it is free. All is there
/// `latency` after the last of them is through.
struct ModelledTransfer {
  double latency = 0;
  std::vector<std::pair<int, double>> busy;
};

/// Implemented by whoever knows the connections (src/cost does). Ranks are those of the world. Called by one thread at
/// a time.
class TransferTimes {
 public:
  virtual ~TransferTimes() = default;
  /// How many there are.
  virtual int connections() const = 0;
  virtual ModelledTransfer message(int from, int to, int64_t bytes) = 0;
  /// `bytes`: of the whole tensor, as it is before a reduce_scatter and after an all_gather, all_reduce or broadcast;
  /// of what one rank holds for an all_to_all.
  virtual ModelledTransfer collective(Collective collective, std::span<const int> ranks, int64_t bytes) = 0;
};

/// The clocks of a world, and its connections. But for enter, leave and abort, calls come from threads that have
/// entered, when they have the turn; all but add, advance and leave throw a run error after an abort. Outlives who has
/// entered.
class VirtualTime {
 public:
  /// `transfers`: null: moving bytes takes no time. `kind`: what a rank is, for messages.
  VirtualTime(int ranks, std::unique_ptr<TransferTimes> transfers, std::string kind = "rank");

  /// The calling thread is this rank's, or one that was added. Nobody runs before all ranks have entered. Returns also
  /// after an abort.
  void enter(int runner);
  void leave() noexcept;
  /// The calling thread goes on as this runner, which has entered: whichever thread went on as it calls nothing
  /// meanwhile.
  void go_on_as(int runner) const;
  /// A thread beside the caller's, whose clock is the caller's; it enters with this number.
  int add() { return clock_.add(runner()); }

  double now() const { return clock_.time(runner()); }
  /// Not backwards: a time that is over is now. To now under Untimed::What::everything: others may have been woken
  /// whose clocks are earlier.
  void advance_to(double time);

  /// Until `counter` has come to `target`, which another runner moves with `advance`, or the caller's clock to
  /// `deadline`. `waits_for`: as in VirtualClock::block. Returns the seconds waited.
  double wait_for(const std::atomic<int64_t>& counter, int64_t target, std::string waits_for = "the others",
                  double deadline = VirtualClock::kNever);
  void advance(std::atomic<int64_t>& counter, int64_t by);

  /// While alive, transfers that the calling thread begins, or is the last to come to, take no time. Under `everything`
  /// its waits take none of its clock either: it goes on at the moment at which it began to wait. Does nothing in real
  /// time.
  class Untimed {
   public:
    enum class What { nothing, transfers, everything };
    explicit Untimed(What what);
    ~Untimed();
    Untimed(const Untimed&) = delete;
    Untimed& operator=(const Untimed&) = delete;

   private:
    const What before_;
  };

  /// When what begins now is through.
  double message(int from, int to, int64_t bytes);
  double collective(Collective collective, std::span<const int> ranks, int64_t bytes);

  void abort(const std::string& reason) { clock_.abort(reason); }

 private:
  struct Waiting {
    int runner;
    const std::atomic<int64_t>* counter;
    int64_t target;
    bool untimed;
  };
  int runner() const;
  double carry(const ModelledTransfer& transfer);

  VirtualClock clock_;
  const std::unique_ptr<TransferTimes> transfers_;
  std::vector<double> free_;  ///< by connection: since when, or when it will be
  Mutex mutex_;               ///< after an abort threads take no turns any more
  std::vector<Waiting> waiting_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
