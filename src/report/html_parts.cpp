#include "report/html_parts.h"

#include <fmt/format.h>

#include <cstddef>

#include "report/run_json.h"

namespace trireme {

// Written by cmake/Embed.cmake from src/report/html/ and Debian's Chart.js.
namespace assets {
extern const std::string_view frame_html, report_css, charts_js, palette_js, chart_js;
}  // namespace assets

namespace {

/// The escaped text of a cell, in which a number and its percent sign stay on one line.
std::string cell_text(const std::string& text) {
  std::string out = html_escaped(text);
  static constexpr std::string_view kBefore = " %", kAfter = "&nbsp;%";
  for (size_t at = out.find(kBefore); at != std::string::npos; at = out.find(kBefore, at + kAfter.size()))
    out.replace(at, kBefore.size(), kAfter);
  return out;
}

std::string header_cell(const Column& column) {
  std::string unit = column.unit.empty() ? "" : " <small>" + html_escaped(column.unit) + "</small>";
  return fmt::format("<th scope=\"col\"{}>{}{}</th>", column.numeric ? " class=\"n\"" : "", html_escaped(column.title),
                     unit);
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

std::string script_text(std::string_view code) {
  static constexpr std::string_view kEnd = "</script", kHarmless = "<\\/script";
  std::string out(code);
  for (size_t at = out.find(kEnd); at != std::string::npos; at = out.find(kEnd, at))
    out.replace(at, kEnd.size(), kHarmless);
  return out;
}

std::string embedded_json(const nlohmann::json& json) {
  std::string out;
  for (char c : json_text(json))
    if (c == '<') out += "\\u003c";
    else out += c;
  return out;
}

std::string paragraphs(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += "<p>" + html_escaped(text) + "</p>\n";
  return out;
}

std::string html_table(const std::vector<Column>& columns, const std::string& caption, int first_row) {
  if (columns.empty()) return "<p>Not known.</p>";
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\"><table><caption>{0}</caption>\n<thead><tr>",
      html_escaped(caption));
  for (const Column& column : columns) out += header_cell(column);
  out += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < columns[0].cells.size(); ++row) {
    out += first_row < 0 ? "<tr>" : fmt::format("<tr data-row=\"{}\">", first_row + int(row));
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string cell = cell_text(columns[c].cells[row]);
      if (c == 0) out += "<th scope=\"row\">" + cell + "</th>";
      else out += fmt::format("<td{}>{}</td>", columns[c].numeric ? " class=\"n\"" : "", cell);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

std::string filled_template(std::string_view text, const std::function<std::string(std::string_view name)>& part) {
  std::string out;
  for (size_t open = text.find("{{"); open != text.npos; open = text.find("{{")) {
    const size_t close = text.find("}}", open);
    out += text.substr(0, open);
    out += part(text.substr(open + 2, close - open - 2));
    text.remove_prefix(close + 2);
  }
  return out += text;
}

std::string html_page(const HtmlPage& page) {
  return filled_template(assets::frame_html, [&](std::string_view name) -> std::string {
    if (name == "title") return page.title;
    if (name == "css") return std::string(assets::report_css);
    if (name == "first") return page.first;
    if (name == "first-words") return page.first_words;
    if (name == "body") return page.body;
    if (name == "data") return embedded_json(page.data);
    if (name == "chart-js") return script_text(assets::chart_js);
    std::string scripts = script_text(assets::charts_js) + script_text(assets::palette_js);  // "page-js"
    for (const std::string_view script : page.scripts) scripts += script_text(script);
    return scripts;
  });
}

}  // namespace trireme
