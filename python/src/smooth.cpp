#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "addresses.hpp"
#include "bindings.hpp"
#include "smooth_batch.hpp"
#include "terms.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

/// An array of numpy's on memory that is only lent for the length of a call. Points may be written to as
/// well: torch warns of arrays that may not.
template <class T>
nb::object lent(const T* data, std::initializer_list<std::size_t> shape) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return nb::cast(nb::ndarray<nb::numpy, T>(const_cast<T*>(data), shape, nb::handle()),
                  nb::rv_policy::reference);
}

/// The user's f, a Python function of arrays that it reads from and writes to.
std::function<void(const Request&)> asking(const nb::object& function, Index n, bool elementwise) {
  if (function.is_none()) return {};
  return [&function, size = static_cast<std::size_t>(n), elementwise](const Request& request) {
    const nb::gil_scoped_acquire gil;
    const auto count = static_cast<std::size_t>(request.count);
    function(lent<Index>(request.instances, {count}), lent<double>(request.x, {count, size}),
             lent<double>(request.value, {count}), lent<double>(request.gradient, {count, size}),
             elementwise ? lent<double>(request.hessian, {count, size})
                         : lent<double>(request.hessian, {count, size, size}));
  };
}

SmoothBatch* solve_smooth(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                          const std::array<Index, 8>& counts, const Addresses<8>& which,
                          const std::vector<TermArguments>& terms, const nb::object& evaluate,
                          bool elementwise, const Settings& settings,
                          const std::optional<Addresses<4>>& initial) {
  auto batch = std::make_unique<SmoothBatch>();
  batch->program = {.constraints = program_at(size, n, m, p, fields, counts, which),
                    .terms = terms_at(terms),
                    .evaluate = asking(evaluate, n, elementwise),
                    .elementwise = elementwise};
  batch->num_threads = settings.num_threads;
  {
    const WithoutGil without_gil;
    batch->solution = solve(batch->program, settings, start_at(batch->program.constraints, initial));
  }
  batch->program.evaluate = {};  // it lives as long as the call
  return batch.release();
}

nb::dict report(const SmoothBatch& batch) { return report_of(batch.solution); }

/// Gradients of the wanted fields of the constraints, then of the wanted (term, field) pairs, then u.
std::tuple<nb::list, nb::list, nb::object> pull_back(const SmoothBatch& batch, const Addresses<5>& bars,
                                                     const std::vector<int>& wanted,
                                                     const std::array<bool, 8>& batched,
                                                     const std::vector<std::pair<int, int>>& wanted_of_terms,
                                                     bool wants_u, double missing, bool unless_solved) {
  const BatchProgram& sizes = batch.program.constraints;
  SmoothGradient gradient{.terms = std::vector<TermGradient>(batch.program.terms.size())};
  nb::list arrays;
  for (const int f : wanted) {
    const auto place = static_cast<std::size_t>(f);
    const NewArray target(shape_of(sizes, static_cast<Field>(f), batched.at(place)));
    gradient.constraints.at(place) = target.data;
    arrays.append(target.array);
  }
  nb::list of_terms;
  for (const auto& [t, f] : wanted_of_terms) {
    const Term& term = batch.program.terms.at(static_cast<std::size_t>(t));
    const auto place = static_cast<std::size_t>(f);
    const BatchField& field = term.*term_fields.at(place);
    const NewArray target(Shape{static_cast<std::size_t>(field.count), entries_of(term, place, sizes.n)});
    gradient.terms[static_cast<std::size_t>(t)].*gradient_fields.at(place) = target.data;
    of_terms.append(target.array);
  }
  nb::object u = nb::none();
  if (wants_u) {
    const NewArray target(Shape{static_cast<std::size_t>(sizes.size), static_cast<std::size_t>(sizes.n)});
    gradient.u = target.data;
    u = target.array;
  }
  const WithoutGil without_gil;
  vjp(batch.program, batch.solution, cotangent_at(bars), gradient,
      {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
  return {arrays, of_terms, u};
}

void push_forward(const SmoothBatch& batch, const Addresses<8>& tangents, const std::array<Index, 8>& counts,
                  const std::vector<std::pair<Addresses<5>, std::array<Index, 5>>>& of_terms,
                  Address gradient, const Addresses<4>& targets, double missing, bool unless_solved) {
  const BatchProgram& sizes = batch.program.constraints;
  SmoothTangent dot{.constraints = program_at(sizes.size, sizes.n, sizes.m, sizes.p, tangents, counts, {}),
                    .gradient = at_address<const double>(gradient)};
  for (std::size_t t = 0; t < of_terms.size(); ++t) {
    Term term{.kind = batch.program.terms.at(t).kind, .rows = batch.program.terms[t].rows};
    for (std::size_t f = 0; f < term_fields.size(); ++f)
      term.*term_fields.at(f) = field_at(of_terms[t].first.at(f), of_terms[t].second.at(f), 0);
    dot.terms.push_back(term);
  }
  const WithoutGil without_gil;
  const PointBlock t = jvp(batch.program, batch.solution, dot,
                           {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
  const std::array parts{&t.x, &t.y, &t.z, &t.z_box};
  for (std::size_t i = 0; i < parts.size(); ++i)
    std::copy_n(parts[i]->data(), parts[i]->size(), at_address(targets[i]));
}

}  // namespace

void bind_smooth(nb::module_& module) {
  nb::class_<SmoothBatch>(module, "SmoothBatch", "A solved batch with smooth convex objectives")
      .def("part", &part<SmoothBatch>, "index"_a, "batched"_a)
      .def_prop_ro("report", &report)
      .def_prop_ro("all_solved", &SmoothBatch::all_solved)
      .def("flat_part", &write_flat_part<SmoothBatch>, "source"_a, "target"_a, "unless_solved"_a)
      .def("vjp", &pull_back, "bars"_a, "wanted"_a, "batched"_a, "wanted_of_terms"_a, "wants_u"_a,
           "missing"_a, "unless_solved"_a)
      .def("jvp", &push_forward, "tangents"_a, "counts"_a, "of_terms"_a, "gradient"_a, "targets"_a,
           "missing"_a, "unless_solved"_a);
  module.def("solve_smooth", &solve_smooth, "size"_a, "n"_a, "m"_a, "p"_a, "fields"_a, "counts"_a, "which"_a,
             "terms"_a, "evaluate"_a.none(), "elementwise"_a, "settings"_a, "initial"_a = nb::none());
}

}  // namespace altdiff::python
