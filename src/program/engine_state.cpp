#include "program/engine_state.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "program/reductions.h"
#include "program/rendezvous.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kUnknown = -2;  // channel of a role that has not been computed

template <class Pending>
Pending take_out(std::vector<Pending>& under_way, Pending& pending) {
  if (&pending != &under_way.back()) std::swap(pending, under_way.back());
  Pending over = std::move(under_way.back());
  under_way.pop_back();
  return over;
}

}  // namespace

Engine::Engine(const Program& program, EngineCosts& costs, const EngineOptions& options)
    : program_(program),
      one_sum_at_a_time_(reduces_one_at_a_time(program)),
      costs_(costs),
      overlap_(costs.overlap()),
      all_ranks_(options.ranks.empty()),
      batches_(options.batches),
      steps_(options.steps > 0 ? options.steps : options.batches + program.greatest_lag),
      clock_(costs.pools()),
      entries_(program.lists.size()),
      ranks_(program.list_of_rank.size()),
      channels_(program.channels.size()),
      updates_(program.buckets.size()) {
  check_internal(program.sites.size() == program.lists.size(), "a program is completed before it is executed");
  end_.step_ends.assign(size_t(steps_), 0);
  ready_ = options.ranks;
  if (all_ranks_) {
    ready_.resize(ranks_.size());
    std::iota(ready_.begin(), ready_.end(), 0);
  }
  for (int rank : ready_) {
    Rank& r = ranks_[size_t(rank)];
    r.executed = true;
    const int list = program.list_of_rank[size_t(rank)];
    r.entries = entries_of(list);
    r.size = int(program.lists[size_t(list)].size());
    r.roles.assign(program.sites[size_t(list)].sites.size(), Role{Part::alone, kUnknown, -1});
    if (overlap_ != Overlap::nothing) r.beside = std::make_unique<Beside>();
  }
  std::reverse(ready_.begin(), ready_.end());
  for (size_t b = 0; b < updates_.size(); ++b) {
    updates_[b].batches.resize(size_t(batches_));
    updates_[b].done.assign(program.buckets[b].holders.size(), 0);
    updates_[b].needed = executed_of(program.buckets[b].holders);
  }
}

int Engine::executed_of(const std::vector<int>& ranks) const {
  if (all_ranks_) return int(ranks.size());
  return int(std::count_if(ranks.begin(), ranks.end(), [&](int rank) { return ranks_[size_t(rank)].executed; }));
}

const Engine::ListEntry* Engine::entries_of(int list) {
  std::vector<ListEntry>& entries = entries_[size_t(list)];
  const std::vector<Instruction>& instructions = program_.lists[size_t(list)];
  const ListSites& sites = program_.sites[size_t(list)];
  if (entries.empty())
    for (size_t k = 0; k < instructions.size(); ++k) {
      const Instruction& i = instructions[k];
      const bool needs_updates = !sites.sites[size_t(sites.of[k])].needs.empty();
      entries.push_back(
          {sites.of[k], i.micro_batch, i.lag, needs_updates, description_of(i.code).weights == WeightUse::update});
    }
  return entries.data();
}

Engine::ChannelState& Engine::state_of(const Role& role) {
  ChannelState& state = channels_[size_t(role.channel)];
  if (state.members >= 0) return state;
  const Channel& channel = channel_of(role);
  state.members = executed_of(channel.members);
  state.receivers = executed_of(channel.receivers);
  state.by_micro_batch = channel.by_micro_batch;
  state.by_batch = channel.by_batch;
  return state;
}

EngineEnd Engine::run() {
  std::vector<Execution> ending;
  while (true) {
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    const int id = clock_.next();
    if (id < 0) break;
    ending.swap(running_[size_t(id)]);
    free_ids_.push_back(id);
    for (const Execution& e : ending) end(e);
  }
  end_.seconds = clock_.now();
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    Rank& r = ranks_[size_t(rank)];
    if (!r.executed || !skip_to_work(r)) continue;
    const Execution stands{.rank = rank, .index = r.index, .step = r.step};
    end_.standstills.push_back({rank, r.index, batch_of(stands), absent(stands)});
  }
  if (end_.standstills.empty() && all_ranks_) find_leftovers();
  return std::move(end_);
}

const Site& Engine::site_of(const Execution& e) const {
  return program_.sites[size_t(program_.list_of_rank[size_t(e.rank)])].sites[size_t(entry_of(e).site)];
}

const Role& Engine::role_at(const Execution& e) {
  Role& role = rank_of(e).roles[size_t(entry_of(e).site)];
  if (role.channel == kUnknown) role = role_of(program_, e.rank, site_of(e));
  return role;
}

// -- the main lane

/// The lane of an instruction. With shared replicas, gradient sums are part of the update. What links do not
/// overlap remains on the main lane.
Lane Engine::lane_for(const Instruction& i) const {
  const Lane lane = description_of(i.code).lane;
  if (lane == Lane::exchange && !program_.private_replicas) return Lane::main;
  if (overlap_ == Overlap::all || (overlap_ == Overlap::messages && lane == Lane::mail)) return lane;
  return description_of(i.code).weights == WeightUse::sum_gradients ? lane : Lane::main;
}

void Engine::next(Rank& r) {
  if (++r.index < r.size) return;
  double& step_end = end_.step_ends[size_t(r.step)];
  step_end = std::max(step_end, clock_.now());
  r.index = 0;
  ++r.step;
}

/// Advances to the next instruction that has a batch. Returns false if none is left.
bool Engine::skip_to_work(Rank& r) {
  while (r.step < steps_ && r.size > 0) {
    const int batch = r.step - r.entries[r.index].lag;
    if (batch >= 0 && batch < batches_) return true;
    next(r);
  }
  return false;
}

void Engine::advance(int rank) {
  Rank& r = ranks_[size_t(rank)];
  advancing_ = rank;
  while (!r.busy && !r.held && skip_to_work(r)) {
    Execution e{.rank = rank, .index = r.index, .step = r.step};
    if (r.beside) {
      const Lane lane = lane_for(at(e));
      if (lane != Lane::main) {
        if (is_held(r, at(e))) break;
        next(r);
        hand_over(e, lane);
        continue;
      }
      if (is_held(r, at(e))) break;
    }
    if (entry_of(e).needs_updates && !updates_there(e)) break;
    r.busy = true;
    e.waited = std::exchange(r.waits_for_update, false);
    enter(e);
  }
  advancing_ = -1;
}

void Engine::hand_over(Execution e, Lane lane) {
  e.lane = lane;
  if (lane == Lane::exchange) {
    Beside& beside = *rank_of(e).beside;
    ++beside.exchanging;
    if (description_of(at(e).code).weights == WeightUse::sum_gradients) {
      ++beside.sums;
      ++beside.summing[at(e).index];
    }
  }
  lane_of(e).queue.push_back(e);
  drain(e);
}

/// True if the instruction must wait for the exchange lane: an update for its bucket's sum, a norm for all sums, a sum
/// for the one before if they follow each other.
bool Engine::is_held(Rank& rank, const Instruction& i) const {
  const WeightUse use = description_of(i.code).weights;
  if (use == WeightUse::measure_sums) rank.held = rank.beside->exchanging > 0;
  if (use == WeightUse::update) rank.held = rank.beside->summing[i.index] > 0;
  if (use == WeightUse::sum_gradients && one_sum_at_a_time_) rank.held = rank.beside->sums > 0;
  rank.was_held |= rank.held;
  return rank.held;
}

bool Engine::updates_there(const Execution& e) {
  const int batch = batch_of(e);
  for (const NeededUpdate& need : site_of(e).needs) {
    if (batch < need.before) continue;
    Updates& updates = updates_[size_t(need.bucket)];
    Updates::Batch& of_batch = updates.batches[size_t(batch - need.before)];
    if (of_batch.done >= updates.needed) continue;
    of_batch.waiting.push_back(e.rank);
    rank_of(e).waits_for_update = true;
    return false;
  }
  return true;
}

void Engine::note_update(const Execution& e) {
  const BucketId bucket = at(e).index;
  const std::vector<int>& holders = program_.buckets[size_t(bucket)].holders;
  const auto holder = std::lower_bound(holders.begin(), holders.end(), e.rank);
  if (holder == holders.end() || *holder != e.rank) return;
  Updates& updates = updates_[size_t(bucket)];
  ++updates.done[size_t(holder - holders.begin())];
  Updates::Batch& of_batch = updates.batches[size_t(batch_of(e))];
  if (++of_batch.done < updates.needed) return;
  for (int rank : std::exchange(of_batch.waiting, {})) ready_.push_back(rank);
}

// -- all lanes

void Engine::drain(const Execution& e) {
  LaneState& state = lane_of(e);
  if (state.draining) return;
  state.draining = true;
  while (!state.busy && !state.queue.empty()) {
    const Execution first = state.queue.front();
    state.queue.pop_front();
    state.busy = true;
    enter(first);
  }
  state.draining = false;
}

void Engine::enter(const Execution& e) {
  const Role& role = role_at(e);
  switch (role.part) {
    case Part::alone:
    case Part::post: {
      Execution alone = e;
      return start({&alone, 1});
    }
    case Part::take: return take(e, role);
    case Part::join: return join(e, role);
  }
}

/// The open rendezvous of this micro-batch and batch, created if there is none.
template <class Pending>
Pending& Engine::pending_at(ChannelState& channel, std::vector<Pending>& under_way, std::vector<Pending>& spare,
                            const Execution& e) {
  const int micro_batch = channel.by_micro_batch ? entry_of(e).micro_batch : -1;
  const int batch = channel.by_batch ? batch_of(e) : -1;
  for (Pending& pending : under_way)
    if (pending.micro_batch == micro_batch && pending.batch == batch) return pending;
  if (spare.empty()) spare.emplace_back();
  under_way.push_back(std::move(spare.back()));
  spare.pop_back();
  under_way.back().micro_batch = micro_batch;
  under_way.back().batch = batch;
  return under_way.back();
}

void Engine::join(const Execution& e, const Role& role) {
  ChannelState& channel = state_of(role);
  Gathering& gathering = pending_at(channel, channel.gatherings, spare_gatherings_, e);
  gathering.members.push_back(e);
  if (int(gathering.members.size()) < channel.members) return;
  Gathering over = take_out(channel.gatherings, gathering);
  start(over.members);
  over.clear();
  spare_gatherings_.push_back(std::move(over));
}

Engine::Mailbox& Engine::mailbox_of(const Role& role, const Execution& e) {
  ChannelState& channel = state_of(role);
  Mailbox& box = pending_at(channel, channel.mailboxes, spare_mailboxes_, e);
  if (box.posted.empty()) {
    box.posted.assign(channel_of(role).members.size(), 0);
    box.taken.assign(channel_of(role).receivers.size(), 0);
  }
  return box;
}

void Engine::forget_if_over(ChannelState& channel, Mailbox& box) {
  const auto rounds = int(box.rounds.size());
  if (box.posts < channel.members * rounds || box.takes < channel.receivers * rounds) return;
  Mailbox over = take_out(channel.mailboxes, box);
  over.clear();
  spare_mailboxes_.push_back(std::move(over));
}

void Engine::take(Execution e, const Role& role) {
  ChannelState& channel = state_of(role);
  if (channel.members == 0) return start({&e, 1});
  Mailbox& box = mailbox_of(role, e);
  int& taken = box.taken[size_t(role.index)];
  if (size_t(taken) >= box.rounds.size() || box.rounds[size_t(taken)] < channel.members) {
    e.waited = true;
    box.waiting.push_back(e);
    return;
  }
  ++taken;
  ++box.takes;
  forget_if_over(channel, box);
  start({&e, 1});
}

/// Rounds complete one after the other, so all waiting receivers wait for this one.
void Engine::post(const Execution& e, const Role& role) {
  ChannelState& channel = state_of(role);
  if (channel.receivers == 0) return;
  Mailbox& box = mailbox_of(role, e);
  const auto round = size_t(box.posted[size_t(role.index)]++);
  ++box.posts;
  if (box.rounds.size() <= round) box.rounds.resize(round + 1, 0);
  if (++box.rounds[round] < channel.members || box.waiting.empty()) return;
  std::vector<Execution> served = std::move(box.waiting);
  box.waiting.clear();
  for (const Execution& other : served) {
    ++box.taken[size_t(role_at(other).index)];
    ++box.takes;
  }
  forget_if_over(channel, box);
  for (Execution& other : served) start({&other, 1});
}

void Engine::start(std::span<Execution> together) {
  for (Execution& e : together) {
    const Rank& r = rank_of(e);
    e.begin = clock_.now();
    e.free = r.free;
    e.held = r.was_held;
    e.exchanges = r.beside && r.beside->exchanging > 0;
  }
  demand_.fixed = 0;
  demand_.shares.clear();
  costs_.begin(together, demand_);
  if (demand_.is_nothing()) {
    for (const Execution& e : together) end(e);
    return;
  }
  if (free_ids_.empty()) {
    free_ids_.push_back(int(running_.size()));
    running_.emplace_back();
  }
  const int id = free_ids_.back();
  free_ids_.pop_back();
  running_[size_t(id)].assign(together.begin(), together.end());
  clock_.begin(id, demand_.fixed, demand_.shares);
}

void Engine::end(const Execution& e) {
  Rank& r = rank_of(e);
  ++end_.executed;
  costs_.end(e, clock_.now());
  if (e.lane == Lane::main) {
    r.busy = false;
    r.free = clock_.now();
    r.was_held = false;
    next(r);
    if (e.rank != advancing_) ready_.push_back(e.rank);
  } else {
    lane_of(e).busy = false;
    if (e.lane == Lane::exchange) {
      --r.beside->exchanging;
      if (description_of(at(e).code).weights == WeightUse::sum_gradients) {
        --r.beside->sums;
        --r.beside->summing[at(e).index];
      }
      if (std::exchange(r.held, false)) ready_.push_back(e.rank);
    }
  }
  if (entry_of(e).updates) note_update(e);
  const Role& role = role_at(e);
  if (role.part == Part::post) post(e, role);
  if (e.lane != Lane::main) drain(e);
}

// -- at the end

std::vector<int> Engine::absent(const Execution& e) {
  const int batch = batch_of(e);
  std::vector<int> absent;
  for (const NeededUpdate& need : site_of(e).needs) {
    const std::vector<int>& holders = program_.buckets[size_t(need.bucket)].holders;
    for (size_t h = 0; h < holders.size(); ++h)
      if (batch >= need.before && updates_[size_t(need.bucket)].done[h] <= batch - need.before)
        absent.push_back(holders[h]);
    if (!absent.empty()) return absent;
  }
  const Role& role = role_at(e);
  check_internal(role.part == Part::join || role.part == Part::take, "only a rendezvous or an update blocks a rank");
  const std::vector<int>& members = channel_of(role).members;
  if (role.part == Part::join) {
    ChannelState& channel = state_of(role);
    const std::vector<Execution>& come = pending_at(channel, channel.gatherings, spare_gatherings_, e).members;
    for (int member : members)
      if (std::none_of(come.begin(), come.end(), [&](const Execution& other) { return other.rank == member; }))
        absent.push_back(member);
  } else {
    const Mailbox& box = mailbox_of(role, e);
    for (size_t m = 0; m < members.size(); ++m)
      if (box.posted[m] <= box.taken[size_t(role.index)]) absent.push_back(members[m]);
  }
  std::sort(absent.begin(), absent.end());
  check_internal(!absent.empty(), "a blocked rank waits for at least one rank");
  return absent;
}

/// Finds messages that were sent but not received.
void Engine::find_leftovers() {
  for (size_t c = 0; c < program_.channels.size(); ++c) {
    const Channel& channel = program_.channels[c];
    if (!channel.must_be_taken) continue;
    for (const Mailbox& box : channels_[c].mailboxes) {
      const size_t sender = size_t(std::max_element(box.posted.begin(), box.posted.end()) - box.posted.begin());
      const size_t receiver = size_t(std::min_element(box.taken.begin(), box.taken.end()) - box.taken.begin());
      if (box.posted[sender] <= box.taken[receiver]) continue;
      const Instruction sent{channel.code, channel.index, box.micro_batch, channel.adjoint};
      end_.leftovers.push_back({channel.members[sender], channel.receivers[receiver], sent, std::max(box.batch, 0)});
    }
  }
}

}  // namespace trireme
