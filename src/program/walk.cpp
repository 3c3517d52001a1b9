#include "program/walk.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "program/meetings.h"

namespace trireme {
namespace {

constexpr int kNobody = -1;

/// Ranks that wait for one thing. Nobody waits for two things at once, so the links are shared by all lists.
class WaitingLists {
 public:
  explicit WaitingLists(int ranks) : next_(size_t(ranks), kNobody) {}
  void add(int& first, int rank) {
    next_[size_t(rank)] = first;
    first = rank;
  }
  /// Empties the list.
  template <class F>
  void release(int& first, F&& each) {
    for (int rank = std::exchange(first, kNobody); rank != kNobody;) {
      const int next = next_[size_t(rank)];
      each(rank);
      rank = next;
    }
  }
  bool contains(int first, int rank) const {
    while (first != kNobody && first != rank) first = next_[size_t(first)];
    return first == rank;
  }

 private:
  std::vector<int> next_;
};

/// Members that come together to begin together.
struct Gathering {
  int micro_batch = -1, batch = -1;
  int arrived = 0;
  double begin = 0, duration = 0;
  int waiting = kNobody;
};

/// What members have posted and receivers have not all taken. Everyone may post and take several times: a round each.
struct Mailbox {
  struct Round {
    int posts = 0;
    double there = 0;  // when the last post has ended
  };
  int micro_batch = -1, batch = -1;
  std::vector<int> posted, taken;  // by member, by receiver
  std::vector<Round> rounds;
  size_t posts = 0, takes = 0;     // over all rounds
  int waiting = kNobody;
  bool is_over() const { return posts == posted.size() * rounds.size() && takes == taken.size() * rounds.size(); }
};

/// Which holders have made which optimizer step of a bucket (shared replicas).
struct Updates {
  struct Batch {
    int steps = 0;
    double there = 0;
    int waiting = kNobody;
  };
  std::vector<Batch> batches;
  std::vector<int> done;  // by holder: optimizer steps so far
};

/// A distinct (code, index, adjoint) of a list: instructions that differ only in the micro-batch meet the same ranks.
struct Sites {
  std::vector<int> of;                  // by position in the list
  std::vector<std::vector<NeededUpdate>> needs;  // by site: besides its meeting
};

class Walker {
 public:
  Walker(const Program& program, const Model& model, int batches, WalkClock& clock)
      : program_(program), clock_(clock), meetings_(program, model), batches_(batches), steps_(batches + program.greatest_lag),
        ranks_(program.list_of_rank.size()), lists_(int(ranks_.size())), updates_(program.buckets.size()) {
    for (const std::vector<Instruction>& list : program.lists) sites_.push_back(sites_of(list));
    for (size_t b = 0; b < updates_.size(); ++b) {
      updates_[b].batches.resize(size_t(batches));
      updates_[b].done.assign(program.buckets[b].holders.size(), 0);
    }
    constexpr Role kUnknown{Part::alone, kUnknownChannel, -1};
    for (int rank = 0; rank < int(ranks_.size()); ++rank) ranks_[size_t(rank)].roles.assign(sites(rank).needs.size(), kUnknown);
  }

  WalkEnd run() {
    for (int rank = int(ranks_.size()) - 1; rank >= 0; --rank) {
      skip(rank);
      ready_.push_back(rank);
    }
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      while (!finished(rank) && attempt(rank)) continue;
    }
    for (int rank = 0; rank < int(ranks_.size()); ++rank)
      if (!finished(rank)) end_.standstills.push_back({rank, ranks_[size_t(rank)].index, batch_of(rank), absent(rank)});
    if (end_.standstills.empty()) find_leftovers();
    return std::move(end_);
  }

 private:
  static constexpr int kUnknownChannel = -2;

  struct Rank {
    int step = 0, index = 0;  // of the next instruction
    double free = 0;          // since when the worker is
    std::vector<Role> roles;  // by site
  };

  const std::vector<Instruction>& list(int rank) const { return program_.instructions(rank); }
  const Instruction& current(int rank) const { return list(rank)[size_t(ranks_[size_t(rank)].index)]; }
  const Sites& sites(int rank) const { return sites_[size_t(program_.list_of_rank[size_t(rank)])]; }
  int current_site(int rank) const { return sites(rank).of[size_t(ranks_[size_t(rank)].index)]; }
  int batch_of(int rank) const { return ranks_[size_t(rank)].step - current(rank).lag; }
  bool finished(int rank) const { return ranks_[size_t(rank)].step >= steps_ || list(rank).empty(); }

  Sites sites_of(const std::vector<Instruction>& list) const {
    Sites sites;
    std::map<std::tuple<OpCode, int, bool>, int> known;
    for (const Instruction& i : list) {
      const auto [it, is_new] = known.try_emplace({i.code, i.index, i.adjoint}, int(sites.needs.size()));
      if (is_new) sites.needs.push_back(updates_needed(program_, i));
      sites.of.push_back(it->second);
    }
    return sites;
  }

  const Role& role_at(int rank) {
    Role& role = ranks_[size_t(rank)].roles[size_t(current_site(rank))];
    if (role.channel == kUnknownChannel) {
      role = meetings_.role_of(rank, current(rank));
      gatherings_.resize(size_t(meetings_.channel_count()));
      mailboxes_.resize(size_t(meetings_.channel_count()));
    }
    return role;
  }

  /// Executes the current instruction of `rank`, or writes the rank into the list of those that wait for what is missing.
  bool attempt(int rank) {
    const Instruction& instruction = current(rank);
    const int batch = batch_of(rank);
    double begin = ranks_[size_t(rank)].free;
    if (!updates_there(rank, batch, begin)) return false;
    const Role role = role_at(rank);
    switch (role.part) {
      case Part::alone: execute(rank, begin, clock_.duration(rank, instruction)); return true;
      case Part::post: {
        const double end = begin + clock_.duration(rank, instruction);
        post(role, instruction, batch, end);
        execute(rank, begin, end - begin);
        return true;
      }
      case Part::take:
        if (!take(rank, role, instruction, batch, begin)) return false;
        execute(rank, begin, clock_.duration(rank, instruction));
        return true;
      case Part::join: return join(rank, role, instruction, batch, begin);
    }
    return false;
  }

  /// Reports the current instruction as done and goes to the next one that there is work for.
  void execute(int rank, double begin, double duration) {
    Rank& r = ranks_[size_t(rank)];
    const double end = begin + duration;
    clock_.on_event(rank, r.index, r.step, begin, end);
    ++end_.executed;
    end_.seconds = std::max(end_.seconds, end);
    r.free = end;
    if (current(rank).code == OpCode::optimizer_step) note_update(rank, current(rank).index, batch_of(rank), end);
    next(rank);
    skip(rank);
  }

  void next(int rank) {
    Rank& r = ranks_[size_t(rank)];
    if (size_t(++r.index) < list(rank).size()) return;
    r.index = 0;
    ++r.step;
  }

  void skip(int rank) {
    while (!finished(rank) && (batch_of(rank) < 0 || batch_of(rank) >= batches_)) next(rank);
  }

  // -- optimizer steps of others

  /// Moves `begin` to when they are there.
  bool updates_there(int rank, int batch, double& begin) {
    for (const NeededUpdate& need : sites(rank).needs[size_t(current_site(rank))]) {
      if (batch < need.before) continue;
      Updates::Batch& updates = updates_[size_t(need.bucket)].batches[size_t(batch - need.before)];
      if (updates.steps < int(program_.buckets[size_t(need.bucket)].holders.size())) {
        lists_.add(updates.waiting, rank);
        return false;
      }
      begin = std::max(begin, updates.there);
    }
    return true;
  }

  void note_update(int rank, BucketId bucket, int batch, double end) {
    const std::vector<int>& holders = program_.buckets[size_t(bucket)].holders;
    const auto place = std::lower_bound(holders.begin(), holders.end(), rank);
    if (place == holders.end() || *place != rank) return;
    Updates& updates = updates_[size_t(bucket)];
    ++updates.done[size_t(place - holders.begin())];
    Updates::Batch& of_batch = updates.batches[size_t(batch)];
    of_batch.there = std::max(of_batch.there, end);
    if (++of_batch.steps == int(holders.size())) wake(of_batch.waiting);
  }

  void wake(int& waiting) {
    lists_.release(waiting, [&](int rank) { ready_.push_back(rank); });
  }

  // -- meetings

  /// The meeting of this micro-batch and batch at a channel; there are few at a time.
  template <class Meeting>
  Meeting& meeting_at(std::vector<std::vector<Meeting>>& all, const Role& role, const Instruction& i, int batch) {
    const Channel& channel = meetings_.channel(role.channel);
    const int micro_batch = channel.by_micro_batch ? i.micro_batch : -1;
    if (!channel.by_batch) batch = -1;
    std::vector<Meeting>& under_way = all[size_t(role.channel)];
    for (Meeting& meeting : under_way)
      if (meeting.micro_batch == micro_batch && meeting.batch == batch) return meeting;
    under_way.emplace_back();
    under_way.back().micro_batch = micro_batch;
    under_way.back().batch = batch;
    return under_way.back();
  }

  template <class Meeting>
  static void forget(std::vector<Meeting>& under_way, Meeting& meeting) {
    if (&meeting != &under_way.back()) meeting = std::move(under_way.back());
    under_way.pop_back();
  }

  Mailbox& mailbox_of(const Role& role, const Instruction& i, int batch) {
    Mailbox& box = meeting_at(mailboxes_, role, i, batch);
    if (box.posted.empty()) {
      box.posted.assign(meetings_.channel(role.channel).members.size(), 0);
      box.taken.assign(meetings_.channel(role.channel).receivers.size(), 0);
    }
    return box;
  }

  void post(const Role& role, const Instruction& i, int batch, double end) {
    if (meetings_.channel(role.channel).receivers.empty()) return;
    Mailbox& box = mailbox_of(role, i, batch);
    const auto round = size_t(box.posted[size_t(role.index)]++);
    ++box.posts;
    if (box.rounds.size() <= round) box.rounds.resize(round + 1);
    box.rounds[round].there = std::max(box.rounds[round].there, end);
    if (++box.rounds[round].posts == int(box.posted.size())) wake(box.waiting);
  }

  /// Moves `begin` to when everything is there.
  bool take(int rank, const Role& role, const Instruction& i, int batch, double& begin) {
    Mailbox& box = mailbox_of(role, i, batch);
    const auto round = size_t(box.taken[size_t(role.index)]);
    if (round >= box.rounds.size() || box.rounds[round].posts < int(box.posted.size())) {
      lists_.add(box.waiting, rank);
      return false;
    }
    begin = std::max(begin, box.rounds[round].there);
    ++box.taken[size_t(role.index)];
    ++box.takes;
    if (box.is_over()) forget(mailboxes_[size_t(role.channel)], box);
    return true;
  }

  bool join(int rank, const Role& role, const Instruction& i, int batch, double begin) {
    Gathering& gathering = meeting_at(gatherings_, role, i, batch);
    gathering.begin = std::max(gathering.begin, begin);
    gathering.duration = std::max(gathering.duration, clock_.duration(rank, i));
    if (++gathering.arrived < int(meetings_.channel(role.channel).members.size())) {
      lists_.add(gathering.waiting, rank);
      return false;
    }
    Gathering over = gathering;
    forget(gatherings_[size_t(role.channel)], gathering);
    lists_.release(over.waiting, [&](int other) {
      execute(other, over.begin, over.duration);
      ready_.push_back(other);
    });
    execute(rank, over.begin, over.duration);
    return true;
  }

  // -- at the end

  std::vector<int> absent(int rank) {
    const Instruction& i = current(rank);
    const int batch = batch_of(rank);
    std::vector<int> absent;
    for (const NeededUpdate& need : sites(rank).needs[size_t(current_site(rank))]) {
      const std::vector<int>& holders = program_.buckets[size_t(need.bucket)].holders;
      for (size_t h = 0; h < holders.size(); ++h)
        if (batch >= need.before && updates_[size_t(need.bucket)].done[h] <= batch - need.before) absent.push_back(holders[h]);
      if (!absent.empty()) return absent;
    }
    const Role& role = role_at(rank);
    check_internal(role.part == Part::join || role.part == Part::take, "only meetings keep a rank waiting");
    const std::vector<int>& members = meetings_.channel(role.channel).members;
    if (role.part == Part::join) {
      const Gathering& gathering = meeting_at(gatherings_, role, i, batch);
      for (int member : members)
        if (!lists_.contains(gathering.waiting, member)) absent.push_back(member);
    } else {
      const Mailbox& box = mailbox_of(role, i, batch);
      for (size_t m = 0; m < members.size(); ++m)
        if (box.posted[m] <= box.taken[size_t(role.index)]) absent.push_back(members[m]);
    }
    std::sort(absent.begin(), absent.end());
    check_internal(!absent.empty(), "a rank that cannot go on waits for somebody");
    return absent;
  }

  /// Announced buckets may stay unused; what travels may not.
  void find_leftovers() {
    for (size_t c = 0; c < mailboxes_.size(); ++c) {
      const Channel& channel = meetings_.channel(int(c));
      if (channel.code == OpCode::reduce_gradients) continue;
      for (const Mailbox& box : mailboxes_[c]) {
        const size_t sender = size_t(std::max_element(box.posted.begin(), box.posted.end()) - box.posted.begin());
        const size_t receiver = size_t(std::min_element(box.taken.begin(), box.taken.end()) - box.taken.begin());
        if (box.posted[sender] <= box.taken[receiver]) continue;
        Instruction sent{channel.code, channel.index, box.micro_batch, channel.adjoint};
        end_.leftovers.push_back({channel.members[sender], channel.receivers[receiver], sent, std::max(box.batch, 0)});
      }
    }
  }

  const Program& program_;
  WalkClock& clock_;
  Meetings meetings_;
  const int batches_, steps_;
  std::vector<Rank> ranks_;
  WaitingLists lists_;
  std::vector<Sites> sites_;  // by list
  std::vector<int> ready_;    // ranks that may be able to go on
  std::vector<std::vector<Gathering>> gatherings_;  // by channel: those under way
  std::vector<std::vector<Mailbox>> mailboxes_;     // likewise
  std::vector<Updates> updates_;                    // by bucket
  WalkEnd end_;
};

}  // namespace

WalkEnd walk(const Program& program, const Model& model, int batches, WalkClock& clock) {
  return Walker(program, model, batches, clock).run();
}

int batches_to_walk(const Program& program) { return program.flushes ? 1 : 2 * program.greatest_lag + 2; }

}  // namespace trireme
