#include "batch/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <type_traits>

namespace altdiff::detail {

namespace {

constexpr std::size_t most_lines = 20;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 240> line{};
  (void)std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

/// The instances to tell of, in order: all, or of many those that were not solved first.
std::vector<std::size_t> chosen(const std::vector<ReportLine>& lines) {
  std::vector<std::size_t> places(lines.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  if (places.size() <= most_lines) return places;
  std::ranges::stable_partition(places, [&](std::size_t i) { return lines[i].status != Status::Solved; });
  places.resize(most_lines);
  std::ranges::sort(places);
  return places;
}

/// "3 SOLVED, 1 NONCONVEX".
template <class Key>
std::string counted(const std::map<Key, std::size_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts) {
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " ";
    if constexpr (std::is_same_v<Key, Status>) {
      text += name(key);
    } else {
      text += key;
    }
  }
  return text;
}

}  // namespace

BatchReport::BatchReport(const Settings& settings, Index size, const std::string& what)
    : settings_(settings), header_("altdiff: " + what) {
  if (size == 1) return;
  settings_.log(header_);
  header_.clear();
}

std::string_view BatchReport::engine(Route route, Status status) const {
  if (status == Status::InvalidData) return "none";
  if (route == Route::HandedOn) return engine_of_one(settings_);
  return route == Route::Proximal ? "proximal" : "active set";
}

void BatchReport::tell(const BatchSolution& solution, const std::vector<Route>& routes) const {
  if (routes.size() == 1 && routes[0] == Route::HandedOn) return;
  std::vector<ReportLine> lines;
  lines.reserve(routes.size());
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const auto column = static_cast<Index>(i);
    lines.push_back({.engine = engine(routes[i], solution.status[i]),
                     .status = solution.status[i],
                     .iterations = solution.iterations[i],
                     .primal = solution.primal_residual[column],
                     .dual = solution.dual_residual[column],
                     .gap = solution.duality_gap[column]});
  }
  tell(lines);
}

void BatchReport::tell(const std::vector<ReportLine>& lines) const {
  if (lines.empty()) return;
  if (!header_.empty()) settings_.log(header_);
  settings_.log("instance  engine           iterations    primal      dual       gap  status");
  for (const std::size_t i : chosen(lines)) {
    const ReportLine& line = lines[i];
    settings_.log(formatted("%8zu  %-16s %10lld  %8.1e  %8.1e  %8.1e  ", i, std::string(line.engine).c_str(),
                            static_cast<long long>(line.iterations), line.primal, line.dual, line.gap) +
                  std::string(name(line.status)));
  }
  if (lines.size() > most_lines) settings_.log(formatted("and %zu more", lines.size() - most_lines));
  settings_.log(summary(lines));
}

std::string BatchReport::summary(const std::vector<ReportLine>& lines) const {
  std::map<Status, std::size_t> statuses;
  std::map<std::string_view, std::size_t> engines;
  ReportLine worst{};
  for (const ReportLine& line : lines) {
    ++statuses[line.status];
    if (line.status != Status::InvalidData) ++engines[line.engine];
    worst.iterations = std::max(worst.iterations, line.iterations);
    if (line.status != Status::Solved) continue;
    worst.primal = std::max(worst.primal, line.primal);
    worst.dual = std::max(worst.dual, line.dual);
    worst.gap = std::max(worst.gap, line.gap);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  std::string text = counted(statuses) + formatted(" in %.3f s", seconds.count());
  if (!engines.empty()) text += ", by engine: " + counted(engines);
  text += formatted("; at most %lld iterations", static_cast<long long>(worst.iterations));
  if (!statuses.contains(Status::Solved)) return text;
  return text + formatted("; the solved: primal <= %.1e, dual <= %.1e, gap <= %.1e", worst.primal, worst.dual,
                          worst.gap);
}

std::string description(Index size, const char* kind, Index n, Index m, Index p) {
  return formatted("%lld %s program%s of %lld variables, %lld inequalities, %lld equalities",
                   static_cast<long long>(size), kind, size == 1 ? "" : "s", static_cast<long long>(n),
                   static_cast<long long>(m), static_cast<long long>(p));
}

std::string_view engine_of_one(const Settings& settings) {
  const bool paper = settings.method == Method::Auto && !settings.finish;
  return settings.method == Method::Alternating || paper ? "alternating" : "interior point";
}

}  // namespace altdiff::detail
