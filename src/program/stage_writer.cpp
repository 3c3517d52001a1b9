#include "program/stage_writer.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

bool gives_gradients(OpCode code) { return description_of(code).weights == WeightUse::add_gradients; }

bool uses_weights(OpCode code) {
  const WeightUse use = description_of(code).weights;
  return use == WeightUse::read || use == WeightUse::read_again || use == WeightUse::add_gradients;
}

}  // namespace

StageWriter::StageWriter(const std::vector<std::vector<StageItem>>& stages, const WorkerGroup& group,
                         const std::vector<BucketId>& held, bool recompute_last, bool sends_first,
                         const Program& program)
    : stages_(stages),
      group_(group),
      held_(held.begin(), held.end()),
      recompute_last_(recompute_last),
      sends_first_(sends_first),
      program_(program) {}

std::vector<Instruction> StageWriter::run(const std::vector<Task>& tasks) {
  if (!program_.training) synchronize_buffers();
  for (const Task& task : tasks) {
    const size_t begin = list_.size();
    if (task.kind == TaskKind::forward) forward(task);
    if (!program_.training) continue;
    switch (task.kind) {
      case TaskKind::forward: break;
      case TaskKind::backward:
      case TaskKind::backward_input: backward(task); break;
      case TaskKind::backward_weight: backward_weight(task); break;
      case TaskKind::update: put(OpCode::optimizer_step, -1, task); break;
    }
    if (sends_first_) note_sends(begin);
  }
  if (program_.training) insert_reductions();
  if (program_.optimizer_sharding == OptimizerSharding::zero3) insert_gathers();
  return std::move(list_);
}

void StageWriter::put(OpCode code, int index, const Task& task, bool adjoint) {
  Instruction instruction{code, index, task.micro_batch, adjoint};
  instruction.lag = task.lag;
  list_.push_back(instruction);
}

void StageWriter::note_sends(size_t begin) {
  size_t last = list_.size();
  while (last > begin && !(list_[last - 1].code == OpCode::send && list_[last - 1].adjoint)) --last;
  for (size_t i = begin; i < list_.size(); ++i) after_sends_.push_back(i < last ? last - 1 : i);
}

bool StageWriter::recomputes(int run, int micro_batch) const {
  return run >= 0 && (recompute_last_ || micro_batch != program_.micro_batches - 1);
}

void StageWriter::recompute(int run, const Task& task) {
  for (const StageItem& item : items_of(task)) {
    if (item.run != run) continue;
    if (item.kind == StageItem::Kind::segment) put(OpCode::recompute, item.index, task);
    else if (program_.redistributions[size_t(item.index)].redistributes_forward)
      put(OpCode::redistribute_again, item.index, task);
  }
}

bool StageWriter::loads(SegmentId segment) const {
  for (OpId id : program_.segments[size_t(segment)].ops)
    for (ValueId input : program_.ops[size_t(id)].inputs)
      if (program_.values[size_t(input)].loaded) return true;
  return false;
}

/// True if workers of other groups also hold the bucket (tied parameters). They reach it at other points of their
/// lists. With private replicas they must not wait for each other in the middle of a list.
bool StageWriter::is_wide(BucketId bucket) const {
  const auto &holders = program_.buckets[size_t(bucket)].holders, &workers = group_.workers;
  return program_.private_replicas && !std::includes(workers.begin(), workers.end(), holders.begin(), holders.end());
}

void StageWriter::forward(const Task& task) {
  const auto& items = items_of(task);
  for (const StageItem& item : items)
    if (item.kind == StageItem::Kind::segment && loads(item.index)) {
      put(OpCode::load_batch, group_.stages[size_t(task.chunk)], task);
      break;
    }
  for (const StageItem& item : items) {
    switch (item.kind) {
      case StageItem::Kind::segment:
        put(OpCode::forward, item.index, task);
        list_.back().keeps = !recomputes(item.run, task.micro_batch);
        break;
      case StageItem::Kind::redistribution:
        if (program_.redistributions[size_t(item.index)].redistributes_forward)
          put(OpCode::redistribute, item.index, task);
        break;
      case StageItem::Kind::send: put(OpCode::send, item.index, task); break;
      case StageItem::Kind::receive: put(OpCode::receive, item.index, task); break;
    }
  }
}

void StageWriter::backward(const Task& task) {
  const auto& items = items_of(task);
  const OpCode code = task.kind == TaskKind::backward ? OpCode::backward : OpCode::backward_input;
  auto is_segment = [](const StageItem& item) { return item.kind == StageItem::Kind::segment; };
  int done = -1;  // the run that was recomputed last
  const auto restore = [&](const StageItem& item) {
    if (item.run != done && recomputes(item.run, task.micro_batch)) recompute(done = item.run, task);
  };
  // The run of the stage's last segment is recomputed before the gradient from the next stage arrives: recomputation
  // needs nothing from other stages.
  if (const auto last = std::find_if(items.rbegin(), items.rend(), is_segment); last != items.rend()) restore(*last);
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    restore(*item);
    if (is_segment(*item)) {
      const bool splits = program_.segments[size_t(item->index)].splits_backward;
      put(splits ? code : OpCode::backward, item->index, task);
      continue;
    }
    if (!program_.redistributions[size_t(item->index)].redistributes_backward) continue;
    switch (item->kind) {
      case StageItem::Kind::redistribution: put(OpCode::redistribute, item->index, task, true); break;
      case StageItem::Kind::send: put(OpCode::receive, item->index, task, true); break;
      case StageItem::Kind::receive: put(OpCode::send, item->index, task, true); break;
      case StageItem::Kind::segment: break;
    }
  }
}

void StageWriter::backward_weight(const Task& task) {
  const auto& items = items_of(task);
  for (auto item = items.rbegin(); item != items.rend(); ++item)
    if (item->kind == StageItem::Kind::segment && program_.segments[size_t(item->index)].splits_backward)
      put(OpCode::backward_weight, item->index, task);
}

void StageWriter::synchronize_buffers() {
  for (int stage : group_.stages)
    for (const StageItem& item : stages_[size_t(stage)]) {
      if (item.kind != StageItem::Kind::segment) continue;
      for (OpId id : program_.segments[size_t(item.index)].ops)
        if (program_.ops[size_t(id)].mesh.data > 1 && program_.ops[size_t(id)].has_buffers)
          list_.push_back({OpCode::synchronize_buffers, id});
    }
}

/// A bucket's gradient is complete after the last instruction before the update that adds to it. If gradients are
/// sharded, it is complete after the last such instruction of each micro-batch. A wide bucket is reduced once, before
/// the update. With sends_first_ other reductions come after the task has sent gradients to the stage before, unless
/// gradients are sharded: the worker has no memory for all of them.
void StageWriter::insert_reductions() {
  const bool per_micro_batch = program_.optimizer_sharding >= OptimizerSharding::zero2;
  std::vector<std::vector<Instruction>> after(list_.size());
  std::vector<Instruction> steps;
  std::set<std::pair<BucketId, int>> seen;
  std::set<BucketId> seen_buckets;
  std::set<SegmentId> settled;  // segments whose buckets have all been seen, if reductions are once per update
  size_t update = list_.size();
  for (size_t i = list_.size(); i-- > 0;) {
    if (list_[i].code == OpCode::optimizer_step) {
      update = i;
      seen.clear();
      seen_buckets.clear();
      settled.clear();
    }
    if (update == list_.size() || !gives_gradients(list_[i].code)) continue;
    if (!per_micro_batch && !settled.insert(list_[i].index).second) continue;
    const size_t place = per_micro_batch || !sends_first_ ? i : after_sends_[i];
    std::ptrdiff_t next = 0;  // what is complete earlier comes earlier
    for (BucketId b : program_.segment_buckets[size_t(list_[i].index)]) {
      const Bucket& bucket = program_.buckets[size_t(b)];
      if (!held_.count(b) || bucket.contributors.empty()) continue;
      const bool wide = is_wide(b), each = per_micro_batch && !wide;
      const bool is_last = seen_buckets.insert(b).second;
      if (!seen.insert({b, each ? list_[i].micro_batch : 0}).second) continue;
      Instruction reduce{OpCode::reduce_gradients, b, each ? list_[i].micro_batch : -1};
      reduce.lag = list_[i].lag;
      reduce.last = is_last;
      if (wide) after[update - 1].push_back(reduce);
      else after[place].insert(after[place].begin() + next++, reduce);
    }
  }
  std::vector<Instruction> list;
  std::vector<BucketId> complete;  // in the order of the reductions
  for (size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].code != OpCode::optimizer_step) {
      list.push_back(list_[i]);
    } else {
      Instruction step{OpCode::clip_gradients};
      step.lag = list_[i].lag;
      if (program_.keeps_gradients) list.push_back(step);
      step.code = OpCode::optimizer_step;
      for (BucketId b : complete) {
        step.index = b;
        list.push_back(step);
      }
      complete.clear();
    }
    // Wide buckets in ascending order, which is the same on all their holders.
    if (i + 1 < list_.size() && list_[i + 1].code == OpCode::optimizer_step)
      std::stable_sort(after[i].begin(), after[i].end(), [](const Instruction& a, const Instruction& b) {
        return std::pair(a.index, a.last) < std::pair(b.index, b.last);
      });
    for (const Instruction& reduce : after[i]) {
      list.push_back(reduce);
      if (reduce.last) complete.push_back(reduce.index);
    }
  }
  list_ = std::move(list);
}

/// Inserts the gathers of zero3. A segment's buckets are gathered before it. Then those of the next segment are
/// prefetched, and buckets that the next segment does not need are released. A wide bucket is gathered once and
/// retained to the end. All its holders then gather it equally often, and each has sent its slice before it waits for
/// another rank.
void StageWriter::insert_gathers() {
  std::vector<size_t> users;
  for (size_t i = 0; i < list_.size(); ++i)
    if (uses_weights(list_[i].code)) users.push_back(i);
  auto needed = [&](size_t user) {
    std::vector<BucketId> buckets;
    for (BucketId b : program_.segment_buckets[size_t(list_[users[user]].index)])
      if (held_.count(b)) buckets.push_back(b);
    return buckets;
  };
  std::vector<std::vector<Instruction>> before(list_.size()), after(list_.size());
  std::set<BucketId> here, asked;
  std::map<BucketId, size_t> last_use;
  for (size_t u = 0; u < users.size(); ++u)
    for (BucketId b : needed(u)) last_use[b] = u;
  auto ask = [&](BucketId b, std::vector<Instruction>& at) {
    if (asked.insert(b).second) at.push_back({OpCode::prefetch_weights, b});
  };
  if (!list_.empty())
    for (const auto& [b, u] : last_use)
      if (is_wide(b)) ask(b, before[0]);
  for (size_t u = 0; u < users.size(); ++u) {
    const auto now = needed(u), next = u + 1 < users.size() ? needed(u + 1) : std::vector<BucketId>{};
    for (BucketId b : now)
      if (!here.count(b)) {
        ask(b, before[users[u]]);
        before[users[u]].push_back({OpCode::gather_weights, b});
        here.insert(b);
      }
    for (BucketId b : next)
      if (!here.count(b)) ask(b, before[users[u]]);
    for (auto it = here.begin(); it != here.end();) {
      if (is_wide(*it) ? last_use[*it] > u : std::find(next.begin(), next.end(), *it) != next.end()) {
        ++it;
        continue;
      }
      after[users[u]].push_back({OpCode::release_weights, *it});
      asked.erase(*it);
      it = here.erase(it);
    }
  }
  std::vector<Instruction> list;
  for (size_t i = 0; i < list_.size(); ++i) {
    list.insert(list.end(), before[i].begin(), before[i].end());
    list.push_back(list_[i]);
    list.insert(list.end(), after[i].begin(), after[i].end());
  }
  list_ = std::move(list);
}

}  // namespace trireme
