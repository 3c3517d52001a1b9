// The integer program of dnn-partitioning for the latency of one sample, solved by CBC.
//
// Variables, for node v, accelerator i = 1..k, device 0 the CPUs:
//   x[v,i] = 1: v is on i             z[v,i] >= x[v,i], does not rise along edges: v is on i or before a node on i
//   in[u,i], out[u,i]: i receives u's output, or sends it     start[i], latency[v], total
// The constraints are those of the publication, plus one family that it does not have: along each path, the times of
// its nodes and of the transfers between them add up (done[v]). It holds for each placement, and prevents the bound
// from falling to that of one layer.
#include <Cbc_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/graph_files/child_task.h"
#include "planner/graph_files/latency.h"

namespace trireme {
namespace {

constexpr double kFree = 1e30;        // unbounded
constexpr double kWhole = 0.5;        // a binary variable above this is 1
constexpr double kBoundSlack = 1e-6;  // relative; CBC's own tolerances

/// The left side of a linear constraint.
class Terms {
 public:
  Terms& add(int column, double factor) {
    factors_[column] += factor;
    return *this;
  }
  const std::map<int, double>& factors() const { return factors_; }

 private:
  std::map<int, double> factors_;  // CBC requires each column once
};

class LatencyProgram {
 public:
  LatencyProgram(const PlacementProblem& problem, double latency_limit)
      : problem_(problem), limit_(latency_limit), model_(Cbc_newModel(), Cbc_deleteModel) {
    accelerators_ = std::min(problem.accelerators, int(problem.nodes.size()));
    Cbc_setLogLevel(model_.get(), 0);
    Cbc_setParameter(model_.get(), "log", "0");
    Cbc_setParameter(model_.get(), "slog", "0");
    total_ = column(0, limit_, 1);
    add_placement();
    add_contiguity();
    add_communication();
    add_times();
    add_paths();
    load();
  }

  ProgramResult solve(const DevicePlacement& start, const Deadline& deadline) {
    give_start(start);
    if (const auto seconds = deadline.seconds_left()) {
      Cbc_setParameter(model_.get(), "timeMode", "elapsed");
      Cbc_setParameter(model_.get(), "sec", std::to_string(std::max(*seconds, 1e-3)).c_str());
    }
    Cbc_solve(model_.get());
    ProgramResult result;
    result.complete =
        Cbc_isProvenOptimal(model_.get()) || Cbc_isProvenInfeasible(model_.get());  // infeasible: no better one
    const double bound = Cbc_getBestPossibleObjValue(model_.get());
    if (std::isfinite(bound) && bound > 0 && bound < kFree) result.lower_bound = bound * (1 - kBoundSlack);
    if (Cbc_numberSavedSolutions(model_.get()) > 0 || Cbc_isProvenOptimal(model_.get())) result.placement = placement();
    return result;
  }

 private:
  int column(double least, double most, double cost = 0, bool whole = false) {
    least_.push_back(least);
    most_.push_back(most);
    cost_.push_back(cost);
    if (whole) whole_.push_back(columns());
    entries_.emplace_back();
    return columns() - 1;
  }
  int columns() const { return int(entries_.size()); }
  void row(const Terms& terms, char sense, double right) {
    const int number = int(row_least_.size());
    for (const auto& [column, factor] : terms.factors())
      if (factor != 0) entries_[size_t(column)].push_back({number, factor});
    row_least_.push_back(sense == 'L' ? -kFree : right);
    row_most_.push_back(sense == 'G' ? kFree : right);
  }
  /// Passes the matrix to CBC, column by column.
  void load() {
    std::vector<CoinBigIndex> starts{0};
    std::vector<int> rows;
    std::vector<double> factors;
    for (const auto& column : entries_) {
      for (const auto& [row, factor] : column) {
        rows.push_back(row);
        factors.push_back(factor);
      }
      starts.push_back(CoinBigIndex(rows.size()));
    }
    Cbc_loadProblem(model_.get(), columns(), int(row_least_.size()), starts.data(), rows.data(), factors.data(),
                    least_.data(), most_.data(), cost_.data(), row_least_.data(), row_most_.data());
    for (int column : whole_) Cbc_setInteger(model_.get(), column);
  }

  int nodes() const { return int(problem_.nodes.size()); }
  const PlacementNode& node(int v) const { return problem_.nodes[size_t(v)]; }
  const std::vector<int>& readers(int v) const { return problem_.edges.successors[size_t(v)]; }
  int x(int v, int device) const { return x_[size_t(v)][size_t(device)]; }

  /// Nodes of one colour share their variables.
  void add_placement() {
    std::map<int, std::vector<int>> of_color;
    for (int v = 0; v < nodes(); ++v) {
      std::vector<int>* known = node(v).color ? &of_color[*node(v).color] : nullptr;
      std::vector<int> mine;
      if (known && !known->empty()) {
        mine = *known;
      } else {
        Terms once;
        for (int i = 0; i <= accelerators_; ++i) {
          mine.push_back(column(0, i == kOnCpu && problem_.cpus == 0 ? 0 : 1, 0, true));
          once.add(mine.back(), 1);
        }
        row(once, 'E', 1);
      }
      if (known) *known = mine;
      x_.push_back(std::move(mine));
      if (!node(v).on_accelerator)
        for (int i = 1; i <= accelerators_; ++i) most_[size_t(x(v, i))] = 0;
    }
    for (int i = 1; i <= accelerators_; ++i) {
      // In units of the limit: large numbers of bytes beside zeros and ones cause numerical problems.
      Terms bytes;
      const double unit = std::max(problem_.memory, 1.0);
      for (int v = 0; v < nodes(); ++v) bytes.add(x(v, i), node(v).bytes / unit);
      row(bytes, 'L', problem_.memory / unit);
    }
  }

  void add_contiguity() {
    for (int i = 1; i <= accelerators_; ++i) {
      std::vector<int> z;
      for (int v = 0; v < nodes(); ++v) {
        z.push_back(column(0, 1));
        row(Terms().add(z.back(), 1).add(x(v, i), -1), 'G', 0);
      }
      for (int u = 0; u < nodes(); ++u)
        for (int v : readers(u)) {
          row(Terms().add(z[size_t(v)], 1).add(z[size_t(u)], -1), 'L', 0);
          row(Terms().add(z[size_t(v)], 1).add(x(v, i), -1).add(x(u, i), 1), 'L', 1);
        }
    }
  }

  void add_communication() {
    in_.assign(size_t(nodes()), {});
    out_.assign(size_t(nodes()), {});
    for (int u = 0; u < nodes(); ++u) {
      if (readers(u).empty()) continue;
      for (int i = 0; i <= accelerators_; ++i) {
        in_[size_t(u)].push_back(column(0, i == kOnCpu ? 0 : 1));
        out_[size_t(u)].push_back(column(0, i == kOnCpu ? 0 : 1));
        if (i == kOnCpu) continue;
        for (int v : readers(u)) {
          row(Terms().add(in_[size_t(u)].back(), 1).add(x(v, i), -1).add(x(u, i), 1), 'G', 0);
          row(Terms().add(out_[size_t(u)].back(), 1).add(x(u, i), -1).add(x(v, i), 1), 'G', 0);
        }
      }
    }
  }

  void add_times() {
    for (int v = 0; v < nodes(); ++v) latency_.push_back(column(0, limit_));
    for (int v = 0; v < nodes(); ++v) {
      row(Terms().add(total_, 1).add(latency_[size_t(v)], -1), 'G', 0);
      row(Terms().add(latency_[size_t(v)], 1).add(x(v, kOnCpu), -node(v).cpu), 'G', 0);
      for (int next : readers(v))
        row(Terms().add(latency_[size_t(next)], 1).add(latency_[size_t(v)], -1).add(x(next, kOnCpu), -node(next).cpu),
            'G', 0);
    }
    for (int i = 1; i <= accelerators_; ++i) {
      const int start = column(0, limit_);
      Terms finish;
      finish.add(start, 1);
      for (int v = 0; v < nodes(); ++v) {
        finish.add(x(v, i), node(v).accelerator);
        if (readers(v).empty()) continue;
        finish.add(in_[size_t(v)][size_t(i)], node(v).send).add(out_[size_t(v)][size_t(i)], node(v).send);
        // Inputs are ready before the part starts.
        row(Terms().add(start, 1).add(latency_[size_t(v)], -1).add(in_[size_t(v)][size_t(i)], -limit_), 'G', -limit_);
      }
      for (int v = 0; v < nodes(); ++v) {
        // Nodes on the part are ready when the part is ready.
        Terms ready;
        ready.add(latency_[size_t(v)], 1).add(x(v, i), -limit_);
        for (const auto& [column, factor] : finish.factors()) ready.add(column, -factor);
        row(ready, 'G', -limit_);
      }
    }
  }

  /// done[v] >= done[u] + time of v + time of the transfer on the edge; total >= done[v].
  void add_paths() {
    std::vector<int> done;
    for (int v = 0; v < nodes(); ++v) {
      done.push_back(column(0, limit_));
      row(own_time(Terms().add(done.back(), 1), v), 'G', 0);
      if (readers(v).empty()) row(Terms().add(total_, 1).add(done.back(), -1), 'G', 0);
    }
    for (int u = 0; u < nodes(); ++u)
      for (int v : readers(u)) {
        Terms path;
        path.add(done[size_t(v)], 1).add(done[size_t(u)], -1);
        for (int i = 1; node(u).send > 0 && i <= accelerators_; ++i) {
          if (x(u, i) == x(v, i)) continue;
          const int moved = column(0, 1);
          row(Terms().add(moved, 1).add(x(v, i), -1).add(x(u, i), 1), 'G', 0);
          row(Terms().add(moved, 1).add(x(u, i), -1).add(x(v, i), 1), 'G', 0);
          path.add(moved, -node(u).send);
        }
        row(own_time(path, v), 'G', 0);
      }
  }
  Terms own_time(Terms terms, int v) const {
    for (int i = 0; i <= accelerators_; ++i) terms.add(x(v, i), i == kOnCpu ? -node(v).cpu : -node(v).accelerator);
    return terms;
  }

  void give_start(const DevicePlacement& start) {
    // The binary variables suffice: CBC computes the others. Accelerators are equal, so their numbers may be compacted.
    std::map<int, int> number{{kOnCpu, kOnCpu}};
    std::map<int, double> values;
    for (int v = 0; v < nodes(); ++v) {
      const int device = number.emplace(start[size_t(v)], int(number.size())).first->second;
      for (int i = 0; i <= accelerators_; ++i) values[x(v, i)] = i == device ? 1 : 0;
    }
    std::vector<int> columns;
    std::vector<double> ones;
    for (const auto& [column, value] : values) {
      columns.push_back(column);
      ones.push_back(value);
    }
    Cbc_setMIPStartI(model_.get(), int(columns.size()), columns.data(), ones.data());
  }

  std::optional<DevicePlacement> placement() const {
    const double* values = Cbc_getColSolution(model_.get());
    if (values == nullptr) return std::nullopt;
    DevicePlacement result(size_t(nodes()), kOnCpu);
    for (int v = 0; v < nodes(); ++v)
      for (int i = 1; i <= accelerators_; ++i)
        if (values[x(v, i)] > kWhole) result[size_t(v)] = i;
    return result;
  }

  const PlacementProblem& problem_;
  const double limit_;  ///< upper limit of the latency
  int accelerators_ = 0, total_ = 0;
  std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model_;
  std::vector<double> least_, most_, cost_, row_least_, row_most_;
  std::vector<int> whole_;                                    ///< columns that are integers
  std::vector<std::vector<std::pair<int, double>>> entries_;  ///< by column: row, factor
  std::vector<std::vector<int>> x_;                           ///< by node and device
  std::vector<std::vector<int>> in_, out_;                    ///< by node with readers, and device
  std::vector<int> latency_;
};

/// The result as text, to pass it between processes: completeness, bound, devices.
std::string to_text(const ProgramResult& result) {
  std::string text = fmt::format("{} {:a}", int(result.complete), result.lower_bound);
  if (result.placement)
    for (int device : *result.placement) text += fmt::format(" {}", device);
  return text;
}

ProgramResult from_text(const std::string& text) {
  ProgramResult result;
  char* rest = nullptr;
  result.complete = std::strtol(text.c_str(), &rest, 10) != 0;
  result.lower_bound = std::strtod(rest, &rest);
  DevicePlacement placement;
  while (*rest == ' ') placement.push_back(int(std::strtol(rest, &rest, 10)));
  if (!placement.empty()) result.placement = std::move(placement);
  return result;
}

}  // namespace

ProgramResult solve_latency_program(const PlacementProblem& problem, const DevicePlacement& start,
                                    const Deadline& deadline) {
  constexpr double kRoom = 1e-6;  // relative tolerance, so that the start remains feasible
  constexpr double kForItself =
      0.9;  // share of the time for CBC, which does not check the clock everywhere; the rest is reserve
  const double limit = *placement_latency(problem, start) * (1 + kRoom);
  const auto left = deadline.seconds_left();
  const Deadline own(left ? std::optional(*left * kForItself) : std::nullopt);
  const auto answer = run_in_child([&] { return to_text(LatencyProgram(problem, limit).solve(start, own)); }, deadline);
  return answer ? from_text(*answer) : ProgramResult{};
}

}  // namespace trireme
