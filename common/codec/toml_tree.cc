// SPDX-License-Identifier: Apache-2.0
// Some malformed keys fail the parser's assertions: as exceptions they end the parse and not the process. With NDEBUG
// the library would take them for promises to the compiler.
#undef NDEBUG
[[noreturn]] static void assertion_failed()
{
	throw 0;
}
#define TOML_ASSERT(expr)        ((expr) ? static_cast<void>(0) : assertion_failed())
#define TOML_EXCEPTIONS          0
#define TOML_HEADER_ONLY         1
#define TOML_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include "common/codec/json.h"
}
#include "common/codec/toml_tree.h"

namespace
{

struct member {
	std::string_view key;
	const toml::node *node;
	toml::source_position at;
};

class builder
{
      public:
	builder(berth_json *lines_out, berth_toml_problem *problem_out) : lines(lines_out), problem(problem_out)
	{
	}

	berth_json *value(const toml::node &node, const std::string &path)
	{
		switch (node.type()) {
		case toml::node_type::table:
			return table(*node.as_table(), path);
		case toml::node_type::array:
			return array(*node.as_array(), path);
		case toml::node_type::string: {
			const std::string &text = node.as_string()->get();
			return berth_json_string_n(text.data(), text.size());
		}
		case toml::node_type::integer:
			return berth_json_integer(node.as_integer()->get());
		case toml::node_type::boolean:
			return berth_json_bool(node.as_boolean()->get());
		case toml::node_type::floating_point:
			return number(node.as_floating_point()->get());
		case toml::node_type::date:
			return text_of(node.as_date()->get());
		case toml::node_type::time:
			return text_of(node.as_time()->get());
		case toml::node_type::date_time:
			return text_of(node.as_date_time()->get());
		case toml::node_type::none:
			break;
		}
		return berth_json_null();
	}

	bool failed = false;

      private:
	// JSON has no infinities: they travel as the text that TOML writes, and a reader of numbers refuses it by name.
	static berth_json *number(double real)
	{
		if (std::isfinite(real)) {
			return berth_json_real(real);
		}
		return berth_json_string(std::isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
	}

	template <typename T> static berth_json *text_of(const T &moment)
	{
		std::ostringstream out;
		out << moment;
		return berth_json_string(out.str().c_str());
	}

	// The parser keeps tables sorted by key. A table's place is its header's, or that of its earliest member when
	// the headers of its members alone made it.
	static toml::source_position position(const toml::node &node)
	{
		toml::source_position at = node.source().begin;
		if (const toml::table *table = node.as_table()) {
			for (auto &&[key, inner] : *table) {
				toml::source_position other = key.source().begin;
				if (other && (!at || other < at)) {
					at = other;
				}
			}
		}
		return at;
	}

	berth_json *table(const toml::table &table, const std::string &path)
	{
		std::vector<member> members;
		for (auto &&[key, node] : table) {
			toml::source_position at = key.source().begin;
			members.push_back({key.str(), &node, at ? at : position(node)});
		}
		std::stable_sort(
			members.begin(), members.end(), [](const member &a, const member &b) { return a.at < b.at; });
		berth_json *object = berth_json_object();
		for (const member &item : members) {
			std::string key(item.key);
			if (key.find('\0') != std::string::npos) {
				refuse(item.at, "a key holds a NUL character");
				continue;
			}
			std::string inner = path.empty() ? key : path + "." + key;
			berth_json_set(lines, inner.c_str(), berth_json_integer(item.at.line));
			berth_json_set(object, key.c_str(), value(*item.node, inner));
		}
		return object;
	}

	berth_json *array(const toml::array &array, const std::string &path)
	{
		berth_json *list = berth_json_array();
		size_t index = 0;
		for (const toml::node &node : array) {
			std::string inner = path + "." + std::to_string(index++);
			berth_json_set(lines, inner.c_str(), berth_json_integer(node.source().begin.line));
			berth_json_append(list, value(node, inner));
		}
		return list;
	}

	void refuse(toml::source_position at, const char *reason)
	{
		if (!failed) {
			failed = true;
			problem->line = static_cast<int>(at.line);
			problem->column = static_cast<int>(at.column);
			snprintf(problem->reason, sizeof problem->reason, "%s", reason);
		}
	}

	berth_json *lines;
	berth_toml_problem *problem;
};

} // namespace

static berth_json *parse(const char *text, size_t size, berth_json *lines, berth_toml_problem *problem)
{
	toml::parse_result result = toml::parse(std::string_view(text, size));
	if (!result) {
		const toml::parse_error &error = result.error();
		problem->line = static_cast<int>(error.source().begin.line);
		problem->column = static_cast<int>(error.source().begin.column);
		std::string_view reason = error.description();
		snprintf(problem->reason, sizeof problem->reason, "%.*s", static_cast<int>(reason.size()),
			reason.data());
		return nullptr;
	}
	builder tree(lines, problem);
	berth_json *root = tree.value(result.table(), "");
	if (tree.failed) {
		berth_json_free(root);
		return nullptr;
	}
	return root;
}

static bool assertion_fails(std::string_view text)
{
	try {
		static_cast<void>(toml::parse(text));
		return false;
	} catch (...) {
		return true;
	}
}

// The line on which an assertion of the parser fails: it reads from front to back, so every text that goes beyond
// that place fails, and none that ends before it.
static int assertion_line(std::string_view text)
{
	std::vector<size_t> ends;
	for (size_t at = 0; at < text.size(); at++) {
		if (text[at] == '\n') {
			ends.push_back(at + 1);
		}
	}
	auto found = std::partition_point(
		ends.begin(), ends.end(), [&](size_t end) { return !assertion_fails(text.substr(0, end)); });
	return static_cast<int>(found - ends.begin()) + 1;
}

extern "C" berth_json *berth_toml_tree(const char *text, size_t size, berth_json *lines, berth_toml_problem *problem)
{
	try {
		return parse(text, size, lines, problem);
	} catch (...) {
		problem->line = assertion_line(std::string_view(text, size));
		problem->column = 1;
		snprintf(problem->reason, sizeof problem->reason, "a malformed key or table header");
		return nullptr;
	}
}
