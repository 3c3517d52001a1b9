#include "planner/exact/pipeline_search.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/infinity.h"

namespace trireme {

PipelineSearch::PipelineSearch(StageSearches& searches, PipelineConfiguration configuration)
    : stage_searches_(searches), configuration_(std::move(configuration)), units_(searches.model_segments().units()) {
  const auto kept = [&](int stages_left) {
    return configuration_.schedule->in_flight({.depth = 2, .micro_batches = 2}, stages_left);
  };
  counted_ = configuration_.positions > 0 || kept(1) != kept(2);
  most_stages_ = fixed()    ? configuration_.positions * configuration_.chunks
                 : counted_ ? std::min(units_, configuration_.devices)
                            : 1;
  std::set<SegmentSearch*> all;
  for (const int size : configuration_.sizes)
    for (int first = 0; first + size <= configuration_.devices; first += fixed() ? size : 1)
      all.insert(&search({first, size}));
  fills_ = &stage_searches_.fills(all);
}

double PipelineSearch::quick_bound() const {
  if (fixed() && most_stages_ > units_) return kInfinity;
  const int stages = fixed() ? most_stages_ : std::min(units_, configuration_.devices);
  return fills_->before.back() + fills_->main / stages;
}

PipelineSearch::Step PipelineSearch::advance(double cutoff) {
  if (std::max(proven_, quick_bound()) >= cutoff) return {cutoff, {}, true};
  const Tail best = best_pipeline(cutoff);
  if (complete()) proven_ = std::max(proven_, std::min(cutoff, best.seconds()));
  Step step{proven_, {}, best.next < 0};
  if (step.done) return step;
  step.done = !look_closer(best, cutoff);
  step.stages = step.done ? stages_of(best, cutoff) : real_stages(best);
  return step;
}

size_t PipelineSearch::index(const Where& w) const {
  return (size_t(w.left) * size_t(units_ + 1) + size_t(w.unit)) * size_t(columns()) + size_t(fixed() ? 0 : w.device);
}

SegmentSearch& PipelineSearch::search(DeviceSpan span) {
  SegmentSearch*& found = searches_[{span.first, span.count}];
  if (found) return *found;
  const bool folded = configuration_.positions == 1;
  return *(found = &stage_searches_.search(span, configuration_.settings, configuration_.tied,
                                           configuration_.schedule->step_rule(shape()), folded));
}

double PipelineSearch::micro_batches(int left) const { return configuration_.schedule->in_flight(shape(), left); }

/// Only divisions of the segment below this value can be part of a pipeline below `cutoff`.
double PipelineSearch::cutoff_for(int begin, int end, double cutoff) const {
  return cutoff - fills_->before[size_t(begin)] - fills_->after[size_t(end)];
}

bool PipelineSearch::complete() const {
  return std::all_of(searches_.begin(), searches_.end(), [](const auto& entry) { return entry.second->complete(); });
}

PipelineSearch::Tail PipelineSearch::best_pipeline(double cutoff) {
  tails_.assign(size_t(most_stages_ + 1) * size_t(units_ + 1) * size_t(columns()), {});
  const int last = fixed() ? 0 : configuration_.devices, least_left = counted_ ? 1 : 0,
            most_left = counted_ ? most_stages_ : 0;
  for (int device = 0; device <= last; ++device) tails_[index({0, units_, device})] = {Tail{.next = 0}};
  for (int left = least_left; left <= most_left; ++left)
    for (int unit = units_ - 1; unit >= 0; --unit)
      for (int device = last; device >= 0; --device) {
        if (unit == 0 ? device > 0 || (fixed() && left < most_stages_) : !fixed() && device == 0) continue;
        extend({left, unit, fixed() ? device_of(left) : device}, cutoff);
      }
  Tail best;
  best.main = kInfinity;
  for (int left = least_left; left <= most_left; ++left)
    for (const Tail& tail : tails_[index({left, 0, 0})])
      if (tail.seconds() < best.seconds()) best = tail;
  return best;
}

void PipelineSearch::extend(const Where& at, double cutoff) {
  std::vector<Tail>& here = tails_[index(at)];
  const double held = micro_batches(at.left);
  for (const int size : configuration_.sizes) {
    if (at.device + size > configuration_.devices) continue;
    SegmentSearch& segments = search({at.device, size});
    for (int end = at.unit + 1; end <= units_; ++end) {
      if (at.unit == 0 && end == units_ && !(fixed() && most_stages_ == 1))
        continue;  // one stage is a configuration of its own
      const std::vector<Tail>& rest = tails_[index({counted_ ? at.left - 1 : 0, end, at.device + size})];
      if (rest.empty()) continue;
      const auto& choices = segments.known(stage_searches_.model_segments().segment_of(at.unit, end), held)
                                .below(cutoff_for(at.unit, end, cutoff));
      for (int c = 0; c < int(choices.size()); ++c)
        for (size_t r = 0; r < rest.size(); ++r) {
          const Tail tail{choices[size_t(c)].fill + rest[r].fill,
                          std::max(choices[size_t(c)].main, rest[r].main),
                          at.left,
                          end,
                          size,
                          c,
                          int(r)};
          if (tail.seconds() + fills_->before[size_t(at.unit)] < cutoff) keep(here, tail);
        }
    }
  }
}

void PipelineSearch::keep(std::vector<Tail>& tails, const Tail& tail) {
  for (const Tail& other : tails)
    if (other.fill <= tail.fill && other.main <= tail.main) return;
  std::erase_if(tails, [&](const Tail& other) { return tail.fill <= other.fill && tail.main <= other.main; });
  tails.push_back(tail);
}

template <class Visit>
void PipelineSearch::visit_stages(const Tail& best, Visit&& visit) {
  Where at{best.stages, 0, 0};
  for (Tail tail = best; at.unit < units_;) {
    visit(tail, at, DeviceSpan{at.device, tail.size});
    const int left = counted_ ? at.left - 1 : 0;
    at = {left, tail.end, fixed() && left > 0 ? device_of(left) : at.device + tail.size};
    if (at.unit < units_) tail = tails_[index(at)][size_t(tail.next)];
  }
}

/// Refines the segments of a pipeline that are still bounds. Returns false if there are none.
bool PipelineSearch::look_closer(const Tail& best, double cutoff) {
  std::set<std::tuple<SegmentSearch*, int, double>> unpriced;
  std::map<std::tuple<SegmentSearch*, int, double>, double> unsettled;  // with the required cutoff
  visit_stages(best, [&](const Tail& tail, const Where& at, DeviceSpan span) {
    const std::tuple key{&search(span), stage_searches_.model_segments().segment_of(at.unit, tail.end),
                         micro_batches(at.left)};
    const SegmentSearch::Known& known = std::get<0>(key)->known(std::get<1>(key), std::get<2>(key));
    const double needed = cutoff_for(at.unit, tail.end, cutoff);
    if (!known.priced) unpriced.insert(key);
    else if (known.settled_below < needed) unsettled[key] = std::max(unsettled[key], needed);
  });
  for (const auto& [segments, segment, held] : unpriced) segments->look_closer(segment, held, cutoff);
  if (!unpriced.empty()) return true;
  for (const auto& [key, needed] : unsettled) std::get<0>(key)->look_closer(std::get<1>(key), std::get<2>(key), needed);
  return !unsettled.empty();
}

/// The pipeline's cuts with divisions that fit. Empty unless each segment has one.
std::vector<StagePick> PipelineSearch::real_stages(const Tail& best) {
  std::vector<StagePick> stages;
  bool all = true;
  visit_stages(best, [&](const Tail& tail, const Where& at, DeviceSpan span) {
    const auto& known =
        search(span).known(stage_searches_.model_segments().segment_of(at.unit, tail.end), micro_batches(at.left));
    all = all && known.real;
    if (known.real) stages.push_back({at.unit, tail.end, span, known.real->candidates});
  });
  if (!all) stages.clear();
  return stages;
}

std::vector<StagePick> PipelineSearch::stages_of(const Tail& best, double cutoff) {
  std::vector<StagePick> stages;
  visit_stages(best, [&](const Tail& tail, const Where& at, DeviceSpan span) {
    const auto& known =
        search(span).known(stage_searches_.model_segments().segment_of(at.unit, tail.end), micro_batches(at.left));
    stages.push_back(
        {at.unit, tail.end, span, known.below(cutoff_for(at.unit, tail.end, cutoff))[size_t(tail.choice)].candidates});
  });
  return stages;
}

}  // namespace trireme
