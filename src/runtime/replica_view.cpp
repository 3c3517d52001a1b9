#include "runtime/replica_view.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {

namespace {

/// Returns the master values of a holder's own slice, in its own memory or in the memory that the holders share.
at::Tensor master_of(const std::vector<ReplicaPiece>& pieces, const Range& slice) {
  for (const ReplicaPiece& piece : pieces)
    if (piece.master.defined() && piece.range.begin <= slice.begin && slice.end <= piece.range.end)
      return piece.master.narrow(0, slice.begin - piece.range.begin, slice.size());
  check_internal(false, "a holder has the master values of its own slice");
  return {};
}

/// Adds the padding of a slice, which has index `place` in the state.
void add_padding(const std::vector<Range>& of_bucket, const Range& slice, size_t place,
                 std::vector<WeightPadding>& padding) {
  for (const Range& range : of_bucket) {
    const int64_t begin = std::max(range.begin, slice.begin), end = std::min(range.end, slice.end);
    if (begin < end) padding.push_back({place, begin - slice.begin, end - begin});
  }
}

}  // namespace

std::vector<std::pair<size_t, size_t>> statistics_indices(const std::vector<BufferSpec>& specs) {
  std::vector<std::pair<size_t, size_t>> indices;
  for (size_t i = 0; i + 1 < specs.size(); ++i)
    if (specs[i].name.ends_with("running_mean") && specs[i + 1].name.ends_with("running_var"))
      indices.emplace_back(i, i + 1);
  return indices;
}

std::vector<RunningStatistics> running_statistics(const std::vector<BufferSpec>& specs,
                                                  const std::vector<at::Tensor>& buffers) {
  std::vector<RunningStatistics> statistics;
  for (const auto& [mean, variance] : statistics_indices(specs))
    statistics.push_back({buffers[mean], buffers[variance]});
  return statistics;
}

ReplicaView::ReplicaView(const Program& training, const Model& model)
    : program_(training), model_(model), shown_(training.list_of_rank.size()) {}

void ReplicaView::show(int rank, Replicas& replicas, bool is_updated, std::vector<RunningStatistics> statistics,
                       std::vector<TrackedTable> tables, std::function<void()> restart_optimizer) {
  Shown& shown = shown_[size_t(rank)];
  shown = {};
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    const std::vector<int>& holders = program_.buckets[size_t(b)].holders;
    const bool holds = std::find(holders.begin(), holders.end(), rank) != holders.end();
    shown.pieces.push_back(holds ? replicas.pieces(b) : std::vector<ReplicaPiece>{});
    if (!is_updated)
      for (ReplicaPiece& piece : shown.pieces.back()) piece.state.clear();
  }
  shown.statistics = std::move(statistics);
  shown.tables = std::move(tables);
  shown.restart_optimizer = std::move(restart_optimizer);
}

/// `holder` must have the whole bucket, which has index `place` in the state.
void ReplicaView::add_tables(BucketId bucket, int holder, size_t place) {
  for (const TrackedTable& table : shown_[size_t(holder)].tables) {
    if (table.bucket != bucket) continue;
    const ParameterShard& shard = program_.buckets[size_t(bucket)].shards[size_t(table.shard)];
    const int64_t rows = shard.box.front().size();
    tables_.push_back({{place, shard.offset, rows, shard.size() / rows}, table.row_inputs, RowSet(rows)});
  }
}

ReplicaState ReplicaView::state() {
  ReplicaState state;
  tables_.clear();
  for (size_t b = 0; b < program_.buckets.size(); ++b) {
    const Bucket& bucket = program_.buckets[b];
    if (bucket.contributors.empty()) continue;  // frozen
    const std::vector<Range> padding = bucket.padding();
    for (int holder : bucket.holders) {
      const Range slice = bucket.slice_of(holder);
      if (slice.empty()) continue;
      const std::vector<ReplicaPiece>& pieces = shown_[size_t(holder)].pieces[b];
      state.weights.push_back(master_of(pieces, slice));
      add_tables(BucketId(b), holder, state.weights.size() - 1);
      add_padding(padding, slice, state.weights.size() - 1, state.padding);
      std::vector<at::Tensor>& moments = state.moments.emplace_back();
      for (const ReplicaPiece& piece : pieces) {
        check_internal(piece.state.empty() || piece.range == slice,
                       "each holder has the moments of its own slice only");
        moments.insert(moments.end(), piece.state.begin(), piece.state.end());
      }
    }
  }
  for (const Shown& shown : shown_)
    state.statistics.insert(state.statistics.end(), shown.statistics.begin(), shown.statistics.end());
  for (const Table& table : tables_) state.tables.push_back(table.place);
  state.restart_optimizer = [this] {
    for (const Shown& shown : shown_) shown.restart_optimizer();
  };
  return state;
}

std::vector<std::vector<int64_t>> ReplicaView::rows_in(const std::vector<at::Tensor>& inputs) {
  std::vector<std::vector<int64_t>> rows;
  for (Table& table : tables_) {
    table.rows.clear();
    for (NodeId input : table.row_inputs) table.rows.add(inputs.at(size_t(input)));
    rows.push_back(table.rows.rows());
  }
  return rows;
}

void ReplicaView::renew() {
  for (size_t b = 0; b < program_.buckets.size(); ++b) {
    if (program_.buckets[b].contributors.empty()) continue;  // frozen: never written
    if (program_.private_replicas) renew_private(b);
    else renew_shared(b);
  }
}

void ReplicaView::renew_shared(size_t b) {
  const ReplicaPiece& whole = shown_[size_t(program_.buckets[b].holders.front())].pieces[b].front();
  if (!whole.compute.is_same(whole.master)) at::Tensor(whole.compute).copy_(whole.master);
}

/// Every worker has memory of its own, so each holder's slice is copied to all workers that have a copy of it.
void ReplicaView::renew_private(size_t b) {
  const Bucket& bucket = program_.buckets[b];
  for (const int owner : bucket.holders) {
    const Range slice = bucket.slice_of(owner);
    if (slice.empty()) continue;
    const at::Tensor master = master_of(shown_[size_t(owner)].pieces[b], slice);
    for (const int reader : bucket.holders)
      for (const ReplicaPiece& piece : shown_[size_t(reader)].pieces[b]) {
        const bool is_master = reader == owner && piece.compute.is_same(piece.master);
        if (!is_master) copy_overlap(master, slice.begin, piece.range, piece.compute);
      }
  }
}

}  // namespace trireme
