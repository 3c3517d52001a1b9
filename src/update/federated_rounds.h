// Selects the clients of each round of federated learning and decides when a round ends. Handles no weights.
//
// McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017: max(C K, 1) of K
// clients per round.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/policy.h"

namespace trireme {

/// What happened in a round.
struct RoundRecord {
  int64_t round = 0;  ///< 0-based
  int selected = 0;
  int answered = 0;                       ///< clients whose answers are in the new weights
  int refused = 0;                        ///< clients that answered with values that are not finite
  std::vector<int> refused_clients = {};  ///< numbers of the refused clients
  int clipped = 0;                        ///< clients, of those answered, whose update was scaled down
  int late = 0;                           ///< answers to earlier rounds that arrived in this round; they are not used
  double samples = 0;                     ///< number of samples behind the answers
  double seconds = 0;                     ///< end of the round (FederatedPolicy::run_seconds)
};

/// Prefix of the records of finished rounds in a policy's state.
inline constexpr const char* kRecordsOver = "rounds over: ";

/// Saves or restores the records, under names that begin with `prefix`.
void record_fields(StateFields& fields, const std::string& prefix, std::vector<RoundRecord>& records);

/// What a saved state of a policy tells of its rounds.
struct SavedRounds {
  int64_t over = 0;        ///< number of finished rounds
  bool has_ended = false;  ///< the last of them was the last of the run
};
/// Returns nullopt if the state has no rounds.
std::optional<SavedRounds> saved_rounds(const PolicyState& state);

struct RoundOptions {
  int clients = 1;
  int64_t rounds = 1;   ///< 0: until stop()
  double fraction = 1;  ///< C
  double timeout = 0;   ///< seconds; a longer round ends with the clients that have answered. 0: no limit
  uint64_t seed = 0;
  /// If set: each client is selected independently, with probability `fraction`, drawn from this secret instead of the
  /// seed. A round may then have no clients.
  std::optional<uint64_t> secret = {};
};

/// Not thread-safe. Clients are numbered from 0.
class FederatedRounds {
 public:
  /// Begins round 0 at time 0.
  explicit FederatedRounds(const RoundOptions& options);
  /// Selects the clients of round 0 again, at time `now`, among those that are present. Call it before any client has
  /// begun.
  void start(double now) { select(now); }

  bool is_over() const {
    return stopped_ || (options_.rounds > 0 && round_ >= options_.rounds) || gone_ == options_.clients;
  }
  int64_t round() const { return round_; }
  /// Time at which the open round ends even if answers are missing; infinity: never.
  double deadline() const { return deadline_; }

  /// True if the client is selected in the open round and has not begun.
  bool may_begin(int client) const { return work_[size_t(client)] == Work::selected; }
  void begin(int client) { work_[size_t(client)] = Work::begun; }
  /// Records the client's answer to `round`. Returns true if it counts: it is the client's first one to the open round.
  bool answer(int client, int64_t round);
  /// The client takes no further part; rounds do not wait for it.
  void leave(int client);
  /// A client that has left takes part again from the next round on; from the open one if no other client is present.
  void come_back(int client, double now);
  /// As leave, until `readmit` is called. While all clients that have not left are lost, no round ends.
  void lose(int client);
  /// The client may be selected again from the next round on; for the open one if no other client is present.
  void readmit(int client, double now);

  /// True if no answer is missing or the time is up.
  bool is_complete(double now) const {
    return !is_over() && has_present_client() && (missing_ == 0 || now >= deadline_);
  }
  /// Ends the open round and selects the next one's clients.
  void next(double now);
  /// Ends the open round. There are no further rounds.
  void stop() { stopped_ = true; }
  /// Allows further rounds after stop(): the next one is open.
  void reopen(double now) {
    if (std::exchange(stopped_, false)) next(now);
  }

  /// The client's work in the open round is lost; it starts that work again.
  void begin_anew(int client);

  /// Saves or restores all values, under names that begin with "rounds". When restored at `now`, the open round has the
  /// same time left as when it was saved, and lost clients are back. If no client was left, those that had left are
  /// back too: the run is extended.
  void fields(StateFields& fields, double now);
  /// Moves the end of the open round by `seconds`.
  void delay(double seconds) { deadline_ += seconds; }

  RoundRecord& record() { return record_; }  ///< record of the open round
  /// Returns the clients of a round, ascending. A function of the seed (or secret) and the round, except that clients
  /// that have left or are lost are skipped.
  std::vector<int> selection(int64_t round) const;

 private:
  enum class Work { idle, selected, begun, gone, lost };
  bool is_out(int client) const { return work_[size_t(client)] == Work::gone || work_[size_t(client)] == Work::lost; }
  bool has_present_client() const { return lost_ + gone_ < options_.clients; }
  void select(double now);

  const RoundOptions options_;
  int64_t round_ = 0;
  std::vector<Work> work_;  ///< by client
  int missing_ = 0;         ///< answers missing in the open round
  int gone_ = 0, lost_ = 0;
  bool stopped_ = false;
  double deadline_ = std::numeric_limits<double>::infinity();
  RoundRecord record_;
};

}  // namespace trireme
