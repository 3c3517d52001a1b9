// Labels go from the segment's last layer to its first, as backward does: what is left of the reductions then needs one number. Sums from the
// first layer on, made before, bound what a label can still become.
#include "planner/exact/segment_search.h"

#include <algorithm>

#include "planner/exact/step_model.h"

namespace trireme {
namespace {

constexpr size_t kMostLabels = 3000;  // per state; then the search thins them out and is no longer complete
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

SegmentSearch::Least SegmentSearch::Least::worst() {
  return {kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, kInfinity};
}

void SegmentSearch::Least::take(const Least& other) {
  fill = std::min(fill, other.fill);
  main = std::min(main, other.main);
  late = std::min(late, other.late);
  total = std::min(total, other.total);
  total_late = std::min(total_late, other.total_late);
  state = std::min(state, other.state);
  stored = std::min(stored, other.stored);
}

SegmentSearch::Least SegmentSearch::extended(const Least& least, const StageTerms& terms) const {
  const double f = fill(terms), m = main(terms), l = m + rule_.once * (terms.reduce - terms.hide);
  return {least.fill + f,  least.main + m,       least.late + l,
          least.total + f + m, least.total_late + f + l, least.state + rule_.once * terms.state(), least.stored + stored(terms)};
}

SegmentSearch::Sweep SegmentSearch::advance(const Sweep& sweep, int step) {
  Sweep next;
  for (const auto& [state, least] : sweep)
    for (const Trellis::Transition& transition : trellis_.transitions(step, state))
      next.try_emplace(transition.to, Least::worst()).first->second.take(extended(least, transition.terms));
  return next;
}

const SegmentSearch::Sweep& SegmentSearch::sweep_of(int number) {
  const auto found = sweeps_.find(number);
  if (found != sweeps_.end()) return found->second;
  const Outline& outline = trellis_.outline();
  const Outline::Segment& segment = outline.segment(number);
  Sweep sweep;
  if (segment.before >= 0) sweep = sweep_of(segment.before);
  else sweep[trellis_.start_state(outline.live_before(outline.cut(segment.begin)).size())] = {};
  for (const int step : segment.steps) sweep = advance(sweep, step);
  return sweeps_.emplace(number, std::move(sweep)).first->second;
}

const std::vector<SegmentChoice>& SegmentSearch::bound(int number, double micro_batches) {
  const auto [it, fresh] = bounds_.try_emplace({number, micro_batches});
  if (!fresh) return it->second;
  const Outline& outline = trellis_.outline();
  const std::vector<NodeId>& live = outline.live_before(outline.cut(outline.segment(number).end));
  Least least = Least::worst();
  for (const auto& [state, to_here] : sweep_of(number)) least.take(extended(to_here, trellis_.leave(state, live)));
  const bool fits = fits_limit(least.state + micro_batches * least.stored, trellis_.costs().memory_limit());
  if (least.fill < kInfinity && fits) it->second.push_back({least.fill, std::max(least.main, least.late), {}});
  return it->second;
}

std::vector<SegmentSearch::Sweep> SegmentSearch::sweeps_of_layers(const std::vector<int>& steps, int begin) {
  const Outline& outline = trellis_.outline();
  std::vector<Sweep> sweeps(1);
  sweeps[0][trellis_.start_state(outline.live_before(outline.cut(begin)).size())] = {};
  for (const int step : steps) sweeps.push_back(advance(sweeps.back(), step));
  return sweeps;
}

SegmentSearch::Label SegmentSearch::extended(const Label& label, const StageTerms& terms, const LayerStep& step, double micro_batches) const {
  Label next = label;
  next.fill += fill(terms);
  next.main += main(terms);
  next.reduction = std::max(0.0, label.reduction - rule_.once * terms.hide) + rule_.once * terms.reduce;
  next.held += rule_.once * terms.state() + micro_batches * stored(terms);
  next.workspace = std::max(next.workspace, terms.workspace);
  if (!trellis_.costs().settings().recompute) return next;
  next.run += terms.kept;
  next.largest_run = std::max(next.largest_run, next.run);
  if (step.run_begins) next.run = 0;
  return next;
}

bool SegmentSearch::hopeless(const Label& label, const Least& rest, double micro_batches, double cutoff, bool by_memory) const {
  if (by_memory && !fits_limit(label.bytes() + rest.state + micro_batches * rest.stored, trellis_.costs().memory_limit()))
    return true;
  const double here = label.fill + label.main;
  return here + std::max(rest.total, rest.total_late + label.reduction) >= cutoff;
}

bool SegmentSearch::insert(std::vector<Label>& labels, const Label& label, bool by_memory) {
  const auto no_worse = [by_memory](const Label& a, const Label& b) {
    return a.fill <= b.fill && a.main <= b.main && a.reduction <= b.reduction &&
           (!by_memory || (a.held <= b.held && a.run <= b.run && a.largest_run <= b.largest_run && a.workspace <= b.workspace));
  };
  for (const Label& other : labels)
    if (no_worse(other, label)) return false;
  std::erase_if(labels, [&](const Label& other) { return no_worse(label, other); });
  labels.push_back(label);
  ++labels_;
  if (labels.size() <= kMostLabels) return true;
  complete_ = false;
  const auto dearest = std::max_element(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
    return a.fill + a.main + a.reduction < b.fill + b.main + b.reduction;
  });
  labels.erase(dearest);
  return true;
}

/// `all_fit`: whether all choices found are within the memory limit (without `by_memory` it is not looked at on the way).
std::vector<SegmentChoice> SegmentSearch::search(int number, double micro_batches, double cutoff, bool by_memory, bool& all_fit) {
  const Outline& outline = trellis_.outline();
  const std::vector<int> steps = outline.steps_of(number);
  const Outline::Segment& segment = outline.segment(number);
  const std::vector<Sweep> sweeps = sweeps_of_layers(steps, segment.begin);
  const std::vector<NodeId>& live = outline.live_before(outline.cut(segment.end));
  std::vector<Labels> labels(steps.size() + 1);
  for (const auto& [state, rest] : sweeps.back()) {
    const StageTerms terms = trellis_.leave(state, live);
    Label label;
    label.fill = fill(terms);
    label.main = main(terms);
    if (!hopeless(label, rest, micro_batches, cutoff, by_memory)) labels.back()[state] = {label};
  }
  for (size_t at = steps.size(); at-- > 0;)
    for (const auto& [state, rest] : sweeps[at])
      for (const Trellis::Transition& transition : trellis_.transitions(steps[at], state)) {
        const auto ways = labels[at + 1].find(transition.to);
        if (ways == labels[at + 1].end()) continue;
        for (size_t l = 0; l < ways->second.size(); ++l) {
          Label label = extended(ways->second[l], transition.terms, outline.step(steps[at]), micro_batches);
          if (hopeless(label, rest, micro_batches, cutoff, by_memory)) continue;
          label.next_state = transition.to;
          label.next_label = int(l);
          label.candidate = transition.candidate;
          insert(labels[at][state], label, by_memory);
        }
      }

  std::vector<SegmentChoice> choices;
  all_fit = true;
  if (labels[0].empty()) return choices;
  for (const Label& way : labels[0].begin()->second) {
    if (!fits_limit(way.bytes(), trellis_.costs().memory_limit())) {
      all_fit = false;
      continue;
    }
    SegmentChoice choice{way.fill, way.main + way.reduction, {}};
    const auto beats = [](const SegmentChoice& a, const SegmentChoice& b) { return a.fill <= b.fill && a.main <= b.main; };
    if (std::any_of(choices.begin(), choices.end(), [&](const SegmentChoice& other) { return beats(other, choice); })) continue;
    std::erase_if(choices, [&](const SegmentChoice& other) { return beats(choice, other); });
    const Label* label = &way;
    for (size_t at = 0; at < steps.size(); ++at) {
      choice.candidates.push_back(label->candidate);
      if (at + 1 < steps.size()) label = &labels[at + 1].at(label->next_state)[size_t(label->next_label)];
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

const std::vector<SegmentChoice>& SegmentSearch::choices(int number, double micro_batches, double cutoff) {
  const auto found = choices_.find({number, micro_batches});
  if (found != choices_.end()) return found->second;
  const bool was_complete = complete_;
  bool all_fit = true;
  std::vector<SegmentChoice> choices = search(number, micro_batches, cutoff, false, all_fit);
  if (!all_fit) {
    complete_ = was_complete;
    choices = search(number, micro_batches, cutoff, true, all_fit);
  }
  return choices_.emplace(std::pair{number, micro_batches}, std::move(choices)).first->second;
}

}  // namespace trireme
