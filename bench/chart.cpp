#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace {

// Okabe and Ito's palette.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"};
constexpr size_t kColourCount = std::size(kColours);
constexpr double kWidth = 640, kHeight = 220, kLeft = 70, kRight = 20, kTop = 40, kBelow = 44, kLegendRow = 18,
                 kLegendColumn = 150;

class Panel {
 public:
  Panel(const ChartPanel& panel, double top) : panel_(panel), top_(top), bottom_(top + kHeight) {
    double least = 0, most = 0;
    for (const ChartPanel::Line& line : panel.lines)
      for (const auto& [x, value] : line.points) {
        places_.insert(x);
        least = least == 0 ? value : std::min(least, value);
        most = std::max(most, value);
      }
    if (panel.logarithmic) {
      low_ = std::floor(std::log10(least));
      high_ = std::max(low_ + 1, std::ceil(std::log10(most)));
    } else {
      unit_ = std::pow(10, std::floor(std::log10(most)));
      high_ = std::ceil(most / unit_) * unit_;
      if (high_ / unit_ > 5) unit_ *= 2;
    }
  }

  std::string svg() const {
    std::string text =
        fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\n", kLeft, top_ - 12, panel_.title);
    for (double tick = low_; tick <= high_ * 1.001; tick += unit_)
      text += fmt::format(
          "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
          kLeft, kWidth - kRight, height(tick), height(tick), kLeft - 8, height(tick) + 4,
          panel_.logarithmic ? std::pow(10, tick) : tick);
    for (const int place : places_)
      text +=
          fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(place), bottom_ + 18, place);
    text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + kWidth - kRight) / 2,
                        bottom_ + 36, panel_.x_title);
    for (size_t i = 0; i < panel_.lines.size(); ++i)
      text += line(panel_.lines[i], kColours[i % kColourCount]) + legend(i);
    return text;
  }

  double end() const { return bottom_ + kBelow + kLegendRow * double((names() + columns() - 1) / columns()); }

 private:
  static size_t columns() { return size_t((kWidth - kLeft - kRight) / kLegendColumn); }
  size_t names() const { return panel_.lines.size() > 1 ? panel_.lines.size() : 0; }
  double x(int place) const {
    const double first = std::log2(*places_.begin()), last = std::max(first + 1, std::log2(*places_.rbegin()));
    return kLeft + (std::log2(place) - first) / (last - first) * (kWidth - kRight - kLeft);
  }
  double height(double tick) const { return bottom_ - (tick - low_) / (high_ - low_) * kHeight; }
  double y(double value) const { return height(panel_.logarithmic ? std::log10(value) : value); }

  std::string line(const ChartPanel::Line& line, const char* colour) const {
    std::string points, text;
    for (const auto& [place, value] : line.points) {
      points += fmt::format("{:.1f},{:.1f} ", x(place), y(value));
      text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", x(place), y(value), colour);
    }
    return text +
           fmt::format("\n<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
  }

  std::string legend(size_t i) const {
    if (names() == 0) return "";
    const double left = kLeft + kLegendColumn * double(i % columns()),
                 at = bottom_ + kBelow + kLegendRow * double(i / columns()) + 8;
    return fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", left,
        at - 9, kColours[i % kColourCount], left + 16, at, panel_.lines[i].name);
  }

  const ChartPanel& panel_;
  const double top_, bottom_;
  std::set<int> places_;
  double low_ = 0, high_ = 1, unit_ = 1;  // range and distance of ticks: values, or their decimal logarithms
};

}  // namespace

std::string svg_chart(const std::vector<ChartPanel>& panels) {
  std::string text;
  double top = kTop;
  for (const ChartPanel& each : panels) {
    const Panel panel(each, top);
    text += panel.svg();
    top = panel.end() + kTop;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth, top - kTop + 10, text);
}
