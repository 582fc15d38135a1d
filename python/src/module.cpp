#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>

#include <array>
#include <chrono>
#include <ctime>
#include <stdexcept>

#include "bindings.hpp"
#include "problem/checks.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

Method method_named(const std::string& name) {
  if (name == "auto") return Method::Auto;
  if (name == "active_set") return Method::ActiveSet;
  if (name == "interior_point") return Method::InteriorPoint;
  if (name == "alternating") return Method::Alternating;
  throw std::invalid_argument(
      "method must be one of 'auto', 'active_set', 'interior_point', 'alternating', got '" + name + "'");
}

/// Progress goes to Python's own print, so that notebooks and redirections see it.
void print_line(const std::string& line) {
  const nb::gil_scoped_acquire gil;
  nb::print(line.c_str());
}

void make_settings(Settings* place, double tolerance, double gradient_tolerance, int max_iterations,
                   double time_limit, const std::string& method, int num_threads, bool verbose, double rho,
                   bool finish) {
  new (place) Settings{.tolerance = tolerance,
                       .gradient_tolerance = gradient_tolerance,
                       .max_iterations = max_iterations,
                       .time_limit = time_limit,
                       .method = method_named(method),
                       .num_threads = num_threads,
                       .rho = rho,
                       .finish = finish};
  if (verbose) place->log = &print_line;
  place->poll = &check_signals;
  detail::check(*place);
}

bool cpu_supports_v3() {
#ifdef __x86_64__
  return __builtin_cpu_supports("x86-64-v3");
#else
  return false;
#endif
}

void bind_settings(nb::module_& module) {
  const Settings defaults;
  nb::class_<Settings>(module, "Settings", "Settings of solve, checked")
      .def("__init__", &make_settings, nb::kw_only(), "tolerance"_a = defaults.tolerance,
           "gradient_tolerance"_a = defaults.gradient_tolerance, "max_iterations"_a = defaults.max_iterations,
           "time_limit"_a = defaults.time_limit, "method"_a = "auto", "num_threads"_a = defaults.num_threads,
           "verbose"_a = false, "rho"_a = defaults.rho, "finish"_a = defaults.finish)
      .def_ro("num_threads", &Settings::num_threads);
}

void bind_status(nb::module_& module) {
  nb::enum_<Status>(module, "Status", nb::is_arithmetic(), "What became of an instance")
      .value("SOLVED", Status::Solved, "The residuals, recomputed from the data, are below tolerance")
      .value("MAX_ITERATIONS", Status::MaxIterations, "Stopped early; x is the last iterate")
      .value("TIME_LIMIT", Status::TimeLimit, "Stopped early; x is the last iterate")
      .value("PRIMAL_INFEASIBLE", Status::PrimalInfeasible, "y, z, z_box hold a certificate")
      .value("DUAL_INFEASIBLE", Status::DualInfeasible, "x holds a ray")
      .value("NONCONVEX", Status::NonConvex, "P has a negative direction")
      .value("INVALID_DATA", Status::InvalidData, "This instance of a batch holds NaN")
      .value("NUMERICAL_ERROR", Status::NumericalError, "A factorisation failed");
}

nb::dict describe_build() {
  const BuildInfo info = build_info();
  nb::dict result;
  result["version"] = info.version;
  result["instruction_set"] = info.instruction_set;
  result["blas"] = info.blas;
  result["threads"] = info.threads;
  return result;
}

/// Of the system's tick, some milliseconds: no more is needed here, and it is read in a tenth of the time.
std::chrono::nanoseconds coarse_now() {
#ifdef CLOCK_MONOTONIC_COARSE
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
#else
  return std::chrono::steady_clock::now().time_since_epoch();
#endif
}

}  // namespace

/// The interpreter is asked at most twenty times a second: small pieces of work would otherwise queue for it.
void check_signals() {
  thread_local std::chrono::nanoseconds next{};
  const auto now = coarse_now();
  if (now < next) return;
  next = now + std::chrono::milliseconds(50);
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

Field field_named(const std::string& name) {
  constexpr std::array names{"P", "q", "G", "h", "A", "b", "lb", "ub"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return static_cast<Field>(i);
  throw std::invalid_argument("field must be one of P, q, G, h, A, b, lb, ub, got '" + name + "'");
}

}  // namespace altdiff::python

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-cstyle-cast,bugprone-signed-bitwise): inside nanobind's macro
NB_MODULE(ALTDIFF_MODULE, module) {
  using namespace altdiff::python;
  // A graph that torch still holds at exit is no leak of ours.
  nanobind::set_leak_warnings(false);
  module.doc() = "The core of altdiff; use the package altdiff, which checks and shapes its arguments.";
  bind_status(module);
  bind_settings(module);
  bind_alternating_result(module);
  bind_problems(module);
  bind_dense_batch(module);
  bind_tensors(module);
  bind_smooth(module);
  bind_smooth_tensors(module);
  bind_entropy(module);
  bind_budget(module);
  module.def("build_info", &describe_build);
  module.def("cpu_supports_v3", &cpu_supports_v3);
}
