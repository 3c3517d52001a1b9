#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/text.h"
#include "report/columns.h"
#include "report/quantities.h"
#include "report/run_json.h"
#include "report/trace.h"
#include "train/compare.h"

namespace trireme {

// Written by cmake/Embed.cmake from src/report/html/ and Debian's Chart.js.
namespace assets {
extern const std::string_view report_html, report_css, report_js, blocks_js, replicas_js, schedule_js, timeline_js,
    chart_js;
}  // namespace assets

namespace {

using nlohmann::json;

constexpr size_t kCurvePoints = 2000;  ///< a line on a screen shows no more points; longer curves are thinned

/// Escapes code for a <script> element, whose text may contain anything but its own end tag. In JavaScript strings
/// "<\/" means "</".
std::string script_text(std::string_view code) {
  static constexpr std::string_view kEnd = "</script", kHarmless = "<\\/script";
  std::string out(code);
  for (size_t at = out.find(kEnd); at != std::string::npos; at = out.find(kEnd, at))
    out.replace(at, kEnd.size(), kHarmless);
  return out;
}

/// Escapes JSON for a <script> element. In JSON '<' occurs only inside strings, where \u003c means the same.
std::string embedded_json(const json& j) {
  std::string out;
  for (char c : json_text(j))
    if (c == '<') out += "\\u003c";
    else out += c;
  return out;
}

/// Returns every k-th point and the last one.
json curve_json(const std::vector<CurvePoint>& curve) {
  json points = json::array();
  size_t stride = std::max<size_t>(1, (curve.size() + kCurvePoints - 1) / kCurvePoints);
  for (size_t i = 0; i < curve.size(); ++i)
    if (i % stride == 0 || i + 1 == curve.size())
      points.push_back({curve[i].step, json_number(curve[i].seconds), json_number(curve[i].loss)});
  return points;
}

json timeline_of(const Timeline& timeline) {
  json events = json::array();
  std::vector<int> lanes = event_lanes(timeline);
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const Event& e = timeline.events[i];
    events.push_back(
        {e.rank, lanes[i], name_of(e.kind), e.name, e.micro_batch, json_number(e.begin), json_number(e.end), e.bytes});
  }
  return {{"step", timeline.step}, {"events", std::move(events)}};
}

/// Converts boxes to lists, which are much shorter than objects.
json schedule_of(json schedule) {
  for (json& row : schedule.at("rows"))
    for (json& box : row.at("boxes"))
      box = {box.at("begin"), box.at("end"), box.at("kind"), box.at("stage"), box.at("micro_batch"), box.at("batch")};
  return schedule;
}

/// Returns the names and scales of the metrics in the chart: those of the evaluations except single classes, the main
/// metric first.
json metric_kinds(const ExperimentResult& result) {
  json kinds = json::array();
  std::vector<std::string> known;
  for (const RunResult& row : result.rows)
    for (const Metric& metric : row.evaluations.empty() ? std::vector<Metric>{} : row.evaluations.front().metrics) {
      const MetricKind kind = kind_of_metric(metric.name);
      if (kind.is_per_class || std::find(known.begin(), known.end(), metric.name) != known.end()) continue;
      known.push_back(metric.name);
      kinds.push_back({{"name", metric.name}, {"title", kind.title}, {"is_share", kind.is_share}});
    }
  return kinds;
}

/// What the row's times are; the report's labels say so.
std::string times_are(const ExperimentResult& result, const RunResult& row) {
  if (!result.simulated.empty()) return "simulated";
  return clock_of(row) == ReplicaReport().clock ? "measured" : "modelled";
}

/// All that occur.
std::vector<std::string> times_are(const ExperimentResult& result) {
  std::vector<std::string> words;
  for (const RunResult& row : result.rows)
    if (std::string word = times_are(result, row); std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  if (words.empty()) words.push_back(times_are(result, RunResult()));
  return words;
}

/// Says which curves of the training loss are equal. Under an update policy replicas have weights of their own between
/// two agreements, so curves depend on the policy and on the number of replicas.
std::string about_curves(const ExperimentResult& result) {
  const auto has_policy = [](const RunResult& row) { return row.replicas.has_value(); };
  const bool all = !result.rows.empty() && std::all_of(result.rows.begin(), result.rows.end(), has_policy);
  std::string text;
  if (under_policies(result.rows))
    text =
        "Under an update policy other than synchronous a curve depends on the policy and on the number of replicas, "
        "which compute with weights of their own between two agreements: such curves differ. ";
  if (all) return text;
  text += fmt::format(
      "The same seed gives the same curve under every {}plan, up to rounding: to 10⁻¹⁰ in double precision, while "
      "float32 and bfloat16 drift apart slowly. Exceptions change what is computed: batch norm over shards, compressed "
      "gradients, schedules with delayed weights. ",
      text.empty() ? "" : "other ");
  return text + (under_policies(result.rows)
                     ? ""
                     : "Where curves coincide, earlier rows appear as wider lines below the others.");
}

/// Returns the rows as in run.json, with short curves and boxes, and with timelines.
json report_data(const ExperimentResult& result) {
  json data = to_json(result);
  data["seed"] = fmt::format("{}", result.seed);  // JavaScript's numbers hold 53 bits
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const RunResult& row = result.rows[i];
    json& out = data["rows"][i];
    out["label"] = row_name(row);
    out["times_are"] = times_are(result, row);
    out["short_label"] = fmt::format("{}, {}", variant_name(row), row.devices);
    out["curve"] = curve_json(row.curve);
    out["schedule"] = row.schedule ? schedule_of(*row.schedule) : json(nullptr);
    out["timeline"] = row.timeline ? timeline_of(*row.timeline) : json(nullptr);
  }
  data["metrics"] = metric_kinds(result);
  return data;
}

std::string paragraphs(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += "<p>" + html_escaped(text) + "</p>\n";
  return out;
}

std::string header_cell(const Column& column) {
  std::string unit = column.unit.empty() ? "" : " <small>" + html_escaped(column.unit) + "</small>";
  return fmt::format("<th scope=\"col\"{}>{}{}</th>", column.numeric ? " class=\"n\"" : "", html_escaped(column.title),
                     unit);
}

std::string html_table(const std::vector<Column>& columns, const std::string& caption) {
  if (columns.empty()) return "<p>Not known.</p>";
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\"><table><caption>{0}</caption>\n<thead><tr>",
      caption);
  for (const Column& column : columns) out += header_cell(column);
  out += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < columns[0].cells.size(); ++row) {
    out += "<tr>";
    for (size_t c = 0; c < columns.size(); ++c) {
      std::string cell = html_escaped(columns[c].cells[row]);
      if (c == 0) out += "<th scope=\"row\">" + cell + "</th>";
      else out += fmt::format("<td{}>{}</td>", columns[c].numeric ? " class=\"n\"" : "", cell);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

std::string class_table(const ExperimentResult& result) {
  const std::vector<Column> columns = class_columns(result);
  if (columns.empty()) return "";
  return "<details><summary>By class, at the last evaluation</summary>\n" + html_table(columns, "Test set, by class") +
         "</details>";
}

std::string fact(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html_escaped(value));
}

std::string facts(const ExperimentResult& result) {
  return "<dl>" + fact("Model", result.model) + fact("Data", result.data_source) + fact("Precision", result.precision) +
         fact("Global batch", result.batch > 0 ? fmt::format("{}", result.batch) : "") +
         fact("Seed", fmt::format("{}", result.seed)) + fact("Machine", result.machine) +
         fact("Started", result.started) + fact("Initial values", join(result.initial_values, "; ")) + "</dl>";
}

std::string list_of(const std::vector<std::string>& items, const char* empty) {
  if (items.empty()) return fmt::format("<p>{}</p>", empty);
  std::string out = "<ul>\n";
  for (const std::string& item : items) out += "<li>" + html_escaped(item) + "</li>\n";
  return out + "</ul>";
}

std::string part(const ExperimentResult& result, std::string_view name) {
  if (name == "title") return html_escaped(result.experiment);
  if (name == "css") return std::string(assets::report_css);
  if (name == "facts") return facts(result);
  if (name == "summary") return paragraphs(summary(result));
  if (name == "table") return html_table(comparison_columns(result), "Comparison of the strategies");
  if (name == "memory-table")
    return html_table(memory_columns(result), "Memory of each device at its peak, by category");
  if (name == "block-table") return html_table(block_columns(result), "Strategy of each block");
  if (name == "class-table") return class_table(result);
  if (name == "failures")
    return list_of(failures(result),
                   result.simulated.empty() ? "All runs ended normally." : "All rows could be simulated.");
  if (name == "not-trained") return result.simulated.empty() ? "" : " hidden";
  if (name == "bars")
    return result.simulated.empty() ? "Bars are medians; the thin bars reach from the 10th to the 90th percentile."
                                    : "Bars are simulated steps.";
  if (name == "step-is") return join(times_are(result), " or ");
  if (name == "curves") return about_curves(result);
  if (name == "problems")
    return result.simulated.empty() ? "Runs that did not end normally, and warnings"
                                    : "Rows that could not be simulated, and warnings";
  if (name == "warnings") return list_of(footnotes(result), "No warnings.");
  if (name == "data") return embedded_json(report_data(result));
  if (name == "chart-js") return script_text(assets::chart_js);
  if (name == "report-js") return script_text(assets::report_js);
  if (name == "blocks-js") return script_text(assets::blocks_js);
  if (name == "replicas-js") return script_text(assets::replicas_js);
  if (name == "schedule-js") return script_text(assets::schedule_js);
  if (name == "timeline-js") return script_text(assets::timeline_js);
  return "";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_report(const ExperimentResult& result) {
  // One pass over the template: inserted text is not searched for marks.
  std::string_view rest = assets::report_html;
  std::string out;
  for (size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    size_t close = rest.find("}}", open);
    out += rest.substr(0, open);
    out += part(result, rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return out += rest;
}

}  // namespace trireme
