#include "runtime/replica_view.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {

std::vector<std::pair<size_t, size_t>> statistics_places(const std::vector<BufferSpec>& specs) {
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t i = 0; i + 1 < specs.size(); ++i)
    if (specs[i].name.ends_with("running_mean") && specs[i + 1].name.ends_with("running_var")) places.emplace_back(i, i + 1);
  return places;
}

std::vector<RunningStatistics> running_statistics(const std::vector<BufferSpec>& specs, const std::vector<at::Tensor>& buffers) {
  std::vector<RunningStatistics> statistics;
  for (const auto& [mean, variance] : statistics_places(specs)) statistics.push_back({buffers[mean], buffers[variance]});
  return statistics;
}

ReplicaView::ReplicaView(const Program& training, const Model& model) : program_(training), model_(model), shown_(training.list_of_rank.size()) {}

void ReplicaView::show(int rank, Replicas& replicas, std::vector<RunningStatistics> statistics, std::vector<TrackedTable> tables) {
  Shown& shown = shown_[size_t(rank)];
  shown = {};
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    const std::vector<int>& holders = program_.buckets[size_t(b)].holders;
    const bool holds = std::find(holders.begin(), holders.end(), rank) != holders.end();
    shown.pieces.push_back(holds ? replicas.pieces(b) : std::vector<ReplicaPiece>{});
  }
  shown.statistics = std::move(statistics);
  shown.tables = std::move(tables);
}

/// Of a holder that has the whole bucket, which is the state's at `place`.
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
    for (int holder : bucket.holders) {
      const Range slice = bucket.slice_of(holder);
      if (slice.empty()) continue;
      const std::vector<ReplicaPiece>& pieces = shown_[size_t(holder)].pieces[b];
      check_internal(!pieces.empty() && pieces.front().master.defined(), "holders of shared weights see the whole bucket");
      state.weights.push_back(pieces.front().master.narrow(0, slice.begin, slice.size()));
      add_tables(BucketId(b), holder, state.weights.size() - 1);
      std::vector<at::Tensor>& moments = state.moments.emplace_back();
      for (size_t p = 1; p < pieces.size(); ++p) moments.insert(moments.end(), pieces[p].state.begin(), pieces[p].state.end());
    }
  }
  for (const Shown& shown : shown_) state.statistics.insert(state.statistics.end(), shown.statistics.begin(), shown.statistics.end());
  for (const Table& table : tables_) state.tables.push_back(table.place);
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
    const std::vector<int>& holders = program_.buckets[b].holders;
    if (holders.empty()) continue;
    const ReplicaPiece& whole = shown_[size_t(holders.front())].pieces[b].front();
    if (!whole.compute.is_same(whole.master)) at::Tensor(whole.compute).copy_(whole.master);
  }
}

}  // namespace trireme
