#include "program/draw.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "program/clock.h"

namespace trireme {
namespace {

constexpr double kSameColumn = 1e-6;  // units

/// Workers that do the same at the same time.
struct Row {
  std::vector<int> workers;  // ascending
  std::vector<int> stages;   // ascending
  const std::vector<Stretch>* stretches = nullptr;
  double bubble = 0;
};

bool same_work(const std::vector<Stretch>& a, const std::vector<Stretch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Stretch& x, const Stretch& y) {
    return x.code == y.code && x.stage == y.stage && x.micro_batch == y.micro_batch && x.batch == y.batch &&
           std::abs(x.begin - y.begin) < kSameColumn && std::abs(x.end - y.end) < kSameColumn;
  });
}

std::vector<Row> rows_of(const UnitTimeline& timeline) {
  std::vector<Row> rows;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const std::vector<Stretch>& stretches = timeline.ranks[rank];
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return same_work(*r.stretches, stretches); });
    if (row == rows.end()) {
      std::set<int> stages;
      for (const Stretch& s : stretches) stages.insert(s.stage);
      const double bubble = timeline.bubbles.empty() ? 0 : timeline.bubbles[rank];
      row = rows.insert(rows.end(), Row{{}, {stages.begin(), stages.end()}, &stretches, bubble});
    }
    row->workers.push_back(int(rank));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.stages < b.stages; });
  return rows;
}

/// "worker 3", "workers 0-7,16": from ascending numbers.
std::string numbered(const char* word, const std::vector<int>& numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(end == i + 1 ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return fmt::format("{}{} {}", word, numbers.size() == 1 ? "" : "s", fmt::join(runs, ","));
}

std::string label_of(const Row& row) {
  const std::string workers = numbered("worker", row.workers);
  return row.stages.empty() ? workers : workers + ", " + numbered("stage", row.stages);
}

double mean_bubble(const UnitTimeline& timeline) {
  double sum = 0;
  for (double bubble : timeline.bubbles) sum += bubble;
  return timeline.bubbles.empty() ? 0 : sum / double(timeline.bubbles.size());
}

class TextDrawing {
 public:
  TextDrawing(const Program& program, const Model& model, int columns)
      : program_(program), timeline_(unit_clock(program, model)), rows_(rows_of(timeline_)) {
    for (const Row& row : rows_) {
      margin_ = std::max(margin_, label_of(row).size() + 2);
      chunked_ = chunked_ || row.stages.size() > 1;
      for (const Stretch& s : *row.stretches) seen_.insert(s.code);
    }
    choose_scale();
    const auto whole = size_t(std::lround(timeline_.makespan * cell_));
    const size_t room = columns > int(margin_) + 1 ? size_t(columns) - margin_ - 1 : 0;
    room_ = std::max(room, size_t(kLeastUnits * cell_));
    width_ = std::min(whole, room_);
    cut_ = width_ < whole;
    if (cut_) width_ -= width_ % size_t(cell_);
  }

  std::string text() const {
    std::string text = ruler();
    for (const Row& row : rows_) text += line(row);
    return text + legend();
  }

 private:
  static constexpr int kLeastUnits = 4;

  bool numbered_by_batch() const { return !program_.flushes; }

  std::string label(const Row& row, const Stretch& s) const {
    std::string text = description_of(s.code).drawing.letter;
    if (chunked_)
      text += char('A' + (std::find(row.stages.begin(), row.stages.end(), s.stage) - row.stages.begin()) % 26);
    if (!numbered_by_batch()) return text + fmt::format("{}", s.micro_batch);
    return text +
           (program_.micro_batches == 1 ? fmt::format("{}", s.batch) : fmt::format("{}.{}", s.batch, s.micro_batch));
  }

  /// Sets the characters per unit, such that each label fits into its stretch and is followed by a space.
  void choose_scale() {
    std::map<OpCode, double> longest;  // a stretch that a wait has split need not fit
    for (const Row& row : rows_)
      for (const Stretch& s : *row.stretches) longest[s.code] = std::max(longest[s.code], s.end - s.begin);
    for (const Row& row : rows_)
      for (const Stretch& s : *row.stretches)
        cell_ = std::max(cell_, int(std::ceil(double(label(row, s).size() + 1) / longest[s.code] - kSameColumn)));
  }

  std::string ruler() const {
    std::string line(margin_, ' ');
    const int step = cell_ >= 4 ? 1 : 5;
    const int shown = int(width_) / cell_;
    for (int t = 0; t <= shown; t += step) {
      const std::string number = fmt::format("{}", t);
      const auto at = size_t(t * cell_);
      if (at + number.size() > room_ + 1) break;  // a row ends with a border there
      line.resize(margin_ + at, ' ');
      line += number;
    }
    return line + "\n";
  }

  std::string line(const Row& row) const {
    std::string time(size_t(std::lround(timeline_.makespan * cell_)), '.');
    for (const Stretch& s : *row.stretches) {
      const auto begin = size_t(std::lround(s.begin * cell_)), end = size_t(std::lround(s.end * cell_));
      std::string box = label(row, s);
      box.resize(end - begin, ' ');
      time.replace(begin, end - begin, box);
    }
    return fmt::format("{:<{}}|{}{}\n", label_of(row), margin_ - 1, time.substr(0, width_), cut_ ? "" : "|");
  }

  std::string legend() const {
    std::string text;
    if (cut_)
      text += fmt::format("cut off after {} of {:.4g} units: a wider terminal shows more\n", width_ / size_t(cell_),
                          timeline_.makespan);
    const bool split = seen_.count(OpCode::backward_weight) > 0;
    const std::string chunk = chunked_ ? "A" : "";
    const char* what = "micro-batch 0";
    if (numbered_by_batch()) what = program_.micro_batches == 1 ? "batch 0" : "batch 0, micro-batch 0";
    const char* number = numbered_by_batch() && program_.micro_batches > 1 ? "0.0" : "0";
    text += fmt::format("{}{} forward of {}", chunk, number, what);
    if (seen_.count(OpCode::recompute)) text += fmt::format(", r{}{} forward recomputed", chunk, number);
    if (seen_.count(OpCode::backward) || seen_.count(OpCode::backward_input))
      text += fmt::format(", b{}{} backward{}", chunk, number, split ? " of inputs" : "");
    if (split) text += fmt::format(", w{}{} of weights", chunk, number);
    text += ", . idle\n";
    if (chunked_) text += "A, B, ... first, second, ... stage of a worker\n";
    text += chunked_ ? "1 unit of time: one forward of a micro-batch through all stages of a worker\n"
                     : "1 unit of time: one forward of a micro-batch through a stage\n";
    if (numbered_by_batch())
      return text +
             fmt::format(
                 "without flush: batches 0 to {} are shown, with draining; a longer run continues without draining\n",
                 timeline_.batches - 1);
    return text + fmt::format("bubble: {:.1f} % of {:.4g} units\n", 100 * mean_bubble(timeline_), timeline_.makespan);
  }

  const Program& program_;
  const UnitTimeline timeline_;
  const std::vector<Row> rows_;  // point into timeline_
  size_t margin_ = 0;            // width of the labels, in characters
  size_t room_ = 0;              // for the time, in characters
  size_t width_ = 0;             // of the time shown, in characters
  int cell_ = 1;                 // characters per unit
  bool chunked_ = false;
  bool cut_ = false;
  std::set<OpCode> seen_;
};

}  // namespace

std::string draw_schedule(const Program& program, const Model& model, int columns) {
  return TextDrawing(program, model, columns).text();
}

nlohmann::json schedule_drawing(const Program& program, const Model& model) {
  const UnitTimeline timeline = unit_clock(program, model);
  const bool flushes = program.flushes;
  nlohmann::json drawing{{"unit", "one forward of a worker"},
                         {"makespan", timeline.makespan},
                         {"batches", timeline.batches},
                         {"micro_batches", program.micro_batches},
                         {"flushes", flushes},
                         {"bubble", flushes ? nlohmann::json(mean_bubble(timeline)) : nlohmann::json()},
                         {"rows", nlohmann::json::array()}};
  for (const Row& row : rows_of(timeline)) {
    nlohmann::json boxes = nlohmann::json::array();
    for (const Stretch& s : *row.stretches)
      boxes.push_back({{"begin", s.begin},
                       {"end", s.end},
                       {"kind", description_of(s.code).drawing.kind},
                       {"stage", s.stage},
                       {"micro_batch", s.micro_batch},
                       {"batch", s.batch}});
    drawing["rows"].push_back({{"label", label_of(row)},
                               {"workers", row.workers},
                               {"stages", row.stages},
                               {"bubble", flushes ? nlohmann::json(row.bubble) : nlohmann::json()},
                               {"boxes", std::move(boxes)}});
  }
  return drawing;
}

}  // namespace trireme
