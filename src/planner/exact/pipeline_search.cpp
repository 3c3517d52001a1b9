#include "planner/exact/pipeline_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class PipelineSearch {
 public:
  PipelineSearch(Places& places, const PipelineQuestion& question) : places_(places), question_(question), units_(places.outline().units()) {
    counted_ = question.positions > 0 || question.schedule == "1f1b";
    const int most = std::min(units_, question.devices * question.chunks);
    most_stages_ = question.positions > 0 ? question.positions * question.chunks : counted_ ? most : 1;
  }

  PipelineAnswer run(double cutoff, const std::function<bool()>& stop) {
    PipelineAnswer answer;
    if (question_.positions > 0 && most_stages_ > units_) {
      answer.lower_bound = answer.seconds = cutoff;
      return answer;
    }
    find_prefix_bounds();
    for (;;) {
      const Way best = best_way(cutoff);
      for (const auto& [key, search] : searches_) answer.complete = answer.complete && search->complete();
      if (answer.complete) answer.lower_bound = std::min(cutoff, best.seconds());
      answer.seconds = best.seconds();
      if (best.next < 0 || stop()) return answer;
      if (look_closer(best, cutoff)) continue;
      answer.stages = stages_of(best);
      return answer;
    }
  }

 private:
  /// From a cut to the end.
  struct Way {
    double fill = 0, main = -kInfinity;
    int stages = 0;
    // its first stage, and the way after it
    int end = 0, size = 0, choice = 0;
    int next = -1;  ///< index in the list of (stages - 1, end, device after); -1: there is no way
    double seconds() const { return fill + main; }
  };
  struct Where {
    int left, unit, device;  ///< stages left (0 where they are not counted), first unit, first device
  };

  size_t index(const Where& w) const { return (size_t(w.left) * size_t(units_ + 1) + size_t(w.unit)) * size_t(columns()) + size_t(column(w)); }
  /// Where all stages have one size the number of stages left says which devices are next.
  bool fixed() const { return question_.positions > 0; }
  int columns() const { return fixed() ? 1 : question_.devices + 1; }
  int column(const Where& w) const { return fixed() ? 0 : w.device; }
  int device_of(int left) const { return (most_stages_ - left) % question_.positions * question_.sizes.front(); }

  SegmentSearch& search(DeviceSpan span) {
    SegmentSearch*& found = searches_[{span.first, span.count}];
    if (found) return *found;
    const PipelineShape shape{std::max(1, question_.positions), question_.chunks, question_.settings.micro_batches};
    const bool folded = question_.positions == 1 && question_.chunks == 1;
    return *(found = &places_.search(span, question_.settings, question_.tied, step_rule(question_.schedule, shape), folded));
  }
  double micro_batches(int left) const {
    return in_flight(question_.schedule, {std::max(1, question_.positions), question_.chunks, question_.settings.micro_batches}, left);
  }
  const std::vector<SegmentChoice>& choices(SegmentSearch& at, int begin, int end, double held, double cutoff) {
    const int segment = places_.outline().segment_of(begin, end);
    return at.has_choices(segment, held) ? at.choices(segment, held, cutoff) : at.bound(segment, held);
  }

  /// Least fill of all layers before a cut, wherever they lie.
  void find_prefix_bounds() {
    std::set<SegmentSearch*> places;
    for (const int size : question_.sizes)
      for (int first = 0; first + size <= question_.devices; first += fixed() ? size : 1) places.insert(&search({first, size}));
    prefix_.assign(size_t(units_) + 1, kInfinity);
    prefix_[0] = 0;
    for (int end = 1; end <= units_; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (SegmentSearch* place : places) {
          const auto& least = place->bound(places_.outline().segment_of(begin, end), 0);
          if (!least.empty()) prefix_[size_t(end)] = std::min(prefix_[size_t(end)], prefix_[size_t(begin)] + least.front().fill);
        }
  }

  Way best_way(double cutoff) {
    ways_.assign(size_t(most_stages_ + 1) * size_t(units_ + 1) * size_t(columns()), {});
    const int last = fixed() ? 0 : question_.devices;
    for (int device = 0; device <= last; ++device) ways_[index({0, units_, device})] = {Way{.next = 0}};
    for (int left = counted_ ? 1 : 0; left <= (counted_ ? most_stages_ : 0); ++left)
      for (int unit = units_ - 1; unit >= 0; --unit)
        for (int device = last; device >= 0; --device) {
          if (unit == 0 ? device > 0 || (fixed() && left < most_stages_) : !fixed() && device == 0) continue;
          extend({left, unit, fixed() ? device_of(left) : device}, cutoff);
        }
    Way best;
    best.main = kInfinity;
    for (int left = counted_ ? 1 : 0; left <= (counted_ ? most_stages_ : 0); ++left)
      for (const Way& way : ways_[index({left, 0, 0})])
        if (way.seconds() < best.seconds()) best = way;
    return best;
  }

  void extend(const Where& at, double cutoff) {
    std::vector<Way>& here = ways_[index(at)];
    const double held = micro_batches(at.left);
    for (const int size : question_.sizes) {
      if (at.device + size > question_.devices) continue;
      SegmentSearch& place = search({at.device, size});
      for (int end = at.unit + 1; end <= units_; ++end) {
        const bool whole = at.unit == 0 && end == units_;
        if (whole && !(fixed() && most_stages_ == 1)) continue;  // one stage is a question of its own
        const std::vector<Way>& rest = ways_[index({counted_ ? at.left - 1 : 0, end, at.device + size})];
        if (rest.empty()) continue;
        const auto& ways = choices(place, at.unit, end, held, cutoff);
        for (int c = 0; c < int(ways.size()); ++c)
          for (size_t r = 0; r < rest.size(); ++r) {
            const Way way{ways[size_t(c)].fill + rest[r].fill, std::max(ways[size_t(c)].main, rest[r].main), at.left, end, size, c, int(r)};
            if (way.seconds() + prefix_[size_t(at.unit)] < cutoff) keep(here, way);
          }
      }
    }
  }

  static void keep(std::vector<Way>& ways, const Way& way) {
    for (const Way& other : ways)
      if (other.fill <= way.fill && other.main <= way.main) return;
    std::erase_if(ways, [&](const Way& other) { return way.fill <= other.fill && way.main <= other.main; });
    ways.push_back(way);
  }

  template <class Visit>
  void walk(const Way& best, Visit&& visit) {
    Where at{best.stages, 0, 0};
    for (Way way = best; at.unit < units_;) {
      const DeviceSpan span{at.device, way.size};
      visit(way, at, span);
      const int left = counted_ ? at.left - 1 : 0;
      const int device = fixed() && left > 0 ? device_of(left) : at.device + way.size;
      at = {left, way.end, device};
      if (at.unit < units_) way = ways_[index(at)][size_t(way.next)];
    }
  }

  /// Searches the segments of a way that are bounds so far. False where there are none.
  bool look_closer(const Way& best, double cutoff) {
    std::vector<std::tuple<SegmentSearch*, int, double>> open;
    walk(best, [&](const Way& way, const Where& at, DeviceSpan span) {
      const int segment = places_.outline().segment_of(at.unit, way.end);
      const double held = micro_batches(at.left);
      if (!search(span).has_choices(segment, held)) open.emplace_back(&search(span), segment, held);
    });
    for (const auto& [place, segment, held] : open) place->choices(segment, held, cutoff);
    return !open.empty();
  }

  std::vector<StagePick> stages_of(const Way& best) {
    std::vector<StagePick> stages;
    walk(best, [&](const Way& way, const Where& at, DeviceSpan span) {
      const double held = micro_batches(at.left);
      const SegmentChoice& choice = choices(search(span), at.unit, way.end, held, 0)[size_t(way.choice)];
      stages.push_back({at.unit, way.end, span, held, choice.candidates});
    });
    return stages;
  }

  Places& places_;
  const PipelineQuestion& question_;
  const int units_;
  bool counted_ = false;  ///< what a stage keeps depends on how many come after it
  int most_stages_ = 1;
  std::vector<double> prefix_;
  std::vector<std::vector<Way>> ways_;
  std::map<std::pair<int, int>, SegmentSearch*> searches_;
};

}  // namespace

PipelineAnswer search_pipelines(Places& places, const PipelineQuestion& question, double cutoff, const std::function<bool()>& stop) {
  return PipelineSearch(places, question).run(cutoff, stop);
}

}  // namespace trireme
