#include "train/outcome_text.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

// CBOR, because JSON text cannot represent NaN.
std::string packed(const json& value) {
  std::string text;
  json::to_cbor(value, text);
  return text;
}

template <typename Read>
auto unpacked(const std::string& text, Read read) {
  try {
    return read(json::from_cbor(text));
  } catch (const json::exception& error) {
    fail_run(
        {"a rank's report", "cannot be read", first_line(error), "start all ranks with the same version of trireme"});
  }
}

json events_of(const std::vector<Event>& events) {
  json list = json::array();
  for (const Event& e : events) list.push_back({e.rank, int(e.kind), e.name, e.micro_batch, e.begin, e.end, e.bytes});
  return list;
}

std::vector<Event> read_events(const json& list) {
  std::vector<Event> events;
  for (const json& e : list)
    events.push_back({e.at(0).get<int>(), all_event_kinds().at(e.at(1).get<size_t>()), e.at(2).get<std::string>(),
                      e.at(3).get<int>(), e.at(4).get<double>(), e.at(5).get<double>(), e.at(6).get<int64_t>()});
  return events;
}

}  // namespace

std::string to_text(const PostedOutcome& p) {
  const StepOutcome& o = p.outcome;
  const GradientNorms& n = o.norms;
  return packed({p.step,
                 p.evaluation,
                 p.end_requested,
                 p.load_seconds,
                 o.loss_sum,
                 o.metrics,
                 o.begin,
                 o.end,
                 o.compute_seconds,
                 o.exposed_seconds,
                 o.waiting_seconds,
                 o.hidden_seconds,
                 o.bytes_sent,
                 o.core_times.seconds,
                 o.core_times.count,
                 n.squares,
                 n.piece_squares,
                 n.pieces,
                 n.inverse_samples,
                 o.gradient_squares ? json(*o.gradient_squares) : json(),
                 o.updated_step,
                 o.not_finite,
                 o.not_finite_at,
                 events_of(o.events)});
}

PostedOutcome outcome_from(const std::string& text) {
  return unpacked(text, [](const json& list) {
    size_t next = 0;
    const auto take = [&](auto& value) { list.at(next++).get_to(value); };
    PostedOutcome p;
    StepOutcome& o = p.outcome;
    take(p.step);
    take(p.evaluation);
    take(p.end_requested);
    for (double* number : {&p.load_seconds, &o.loss_sum}) take(*number);
    take(o.metrics);
    for (double* number :
         {&o.begin, &o.end, &o.compute_seconds, &o.exposed_seconds, &o.waiting_seconds, &o.hidden_seconds})
      take(*number);
    take(o.bytes_sent);
    take(o.core_times.seconds);
    take(o.core_times.count);
    for (double* number : {&o.norms.squares, &o.norms.piece_squares, &o.norms.pieces, &o.norms.inverse_samples})
      take(*number);
    if (const json& squares = list.at(next++); !squares.is_null()) o.gradient_squares = squares.get<double>();
    take(o.updated_step);
    take(o.not_finite);
    take(o.not_finite_at);
    o.events = read_events(list.at(next));
    return p;
  });
}

std::string to_text(const MemoryUse& use) { return packed({use.current, use.at_peak, use.peak}); }

MemoryUse memory_from(const std::string& text) {
  return unpacked(text, [](const json& list) {
    MemoryUse use;
    list.at(0).get_to(use.current);
    list.at(1).get_to(use.at_peak);
    list.at(2).get_to(use.peak);
    return use;
  });
}

}  // namespace trireme
