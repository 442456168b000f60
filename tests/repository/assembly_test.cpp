// SPDX-License-Identifier: MIT
//
// Reads the assembly of the vector code, as `objdump -d` prints it. What is demanded:
//
//   - The loops of the matrix product keep what they work on in registers: no vector is stored or
//     comes from the stack, and few pointers come from there. GCC 12 keeps accumulators in memory
//     where a loop over the tile isn't unrolled, and a register short costs a store and a load a step.
//   - Nothing outside the namespaces avx2 and avx512 needs AVX, nothing outside avx512 AVX-512: else
//     a program ends on processors without.
//
// A loop is the code between the target of a backward jump and the jump; only loops without others
// inside are looked at. Its multiply-adds tell whether it is the product's.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "eigenformer/base/config.hpp"

namespace {

using Text = std::string_view;

// ------------------------------------------------------------------ what objdump prints

struct Instruction {
  unsigned long long address;
  std::string mnemonic, operands;  // operands without blanks and comments

  bool has(Text text) const { return operands.find(text) != std::string::npos; }
  bool has_vector() const { return has("%xmm") || has("%ymm") || has("%zmm"); }
};

struct Function {
  std::string name, target;  // target: the namespace of an instruction set, or nothing
  std::vector<Instruction> code;
};

bool starts_with_one_of(Text text, std::initializer_list<Text> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](Text beginning) { return text.starts_with(beginning); });
}

/// The instruction set in whose namespace a function is. Types among its arguments are ignored.
/// GCC's objdump leaves some names mangled.
std::string target_of(Text name) {
  std::string outside;  // of all brackets
  int depth = 0;
  for (char c : name) {
    depth += c == '<' || c == '(';
    if (depth == 0) outside += c;
    depth -= c == '>' || c == ')';
  }
  for (const char* target : {"native", "avx2", "avx512"}) {
    const std::string plain = std::string("kernels::") + target + "::";
    const std::string mangled = "7kernels" + std::to_string(Text(target).size()) + target;
    if (outside.find(plain) != std::string::npos || outside.find(mangled) != std::string::npos)
      return target;
  }
  return "";
}

/// "  1f:\tvmovaps %ymm0,(%rax)  # comment"
Instruction read_instruction(Text line) {
  const auto colon = line.find(':');
  line = line.substr(0, line.find('#'));
  const auto begin = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
  const auto end = std::min(line.find_first_of(" \t", begin), line.size());
  Instruction result{std::strtoull(line.data(), nullptr, 16),
                     std::string(line.substr(begin, end - begin)), std::string(line.substr(end))};
  std::erase_if(result.operands, [](char c) { return c == ' ' || c == '\t'; });
  return result;
}

std::vector<Function> read_functions(std::istream& text) {
  std::vector<Function> functions;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with(">:")) {  // 0000000000000000 <name>:
      const auto begin = line.find('<') + 1;
      const std::string name = line.substr(begin, line.size() - begin - 2);
      functions.push_back({name, target_of(name), {}});
    } else if (!functions.empty() && line.starts_with(' ') && line.find(':') != std::string::npos) {
      functions.back().code.push_back(read_instruction(line));
    }
  }
  return functions;
}

// ------------------------------------------------------------------ loops

bool is_quantized(const Function& function) {
  return function.name.find("quantized_microkernel<") != std::string::npos ||
         function.name.find("integer_microkernel") != std::string::npos;
}

/// A multiply-add or, where there are none, a multiplication of vectors.
bool multiplies(const Function& function, const Instruction& i) {
  if (function.target == "native") return i.mnemonic == "mulps" || i.mnemonic == "mulpd";
  if (is_quantized(function)) return starts_with_one_of(i.mnemonic, {"vpdpbusd", "vpmaddubsw"});
  return i.mnemonic.starts_with("vfmadd");
}

struct Loop {
  int multiplications = 0, vector_stores = 0, vectors_from_stack = 0, others_from_stack = 0,
      to_general_registers = 0;

  int vectors_in_memory() const { return vector_stores + vectors_from_stack; }
};

Loop describe(const Function& function, std::size_t first, std::size_t last) {
  const auto& code = function.code;
  const bool has_frame = std::any_of(code.begin(), code.end(), [](const Instruction& i) {
    return i.operands == "%rsp,%rbp" ||
           (i.mnemonic == "lea" && i.operands.ends_with("(%rsp),%rbp"));
  });
  Loop loop;
  for (std::size_t at = first; at <= last; ++at) {
    const Instruction& i = code[at];
    const bool on_stack = i.has("(%rsp") || (has_frame && i.has("(%rbp"));
    Text destination = i.operands;  // the last operand ends it, with masks behind: {%k1}{z}
    while (destination.ends_with('}')) destination = destination.substr(0, destination.rfind('{'));
    loop.multiplications += multiplies(function, i);
    if (!i.has_vector()) {
      loop.others_from_stack += on_stack;
    } else if (destination.ends_with(')')) {
      ++loop.vector_stores;
    } else if (on_stack) {
      ++loop.vectors_from_stack;
    } else if (starts_with_one_of(i.mnemonic, {"movq", "movd", "vmovq", "vmovd"})) {
      loop.to_general_registers += !starts_with_one_of(i.operands.substr(i.operands.rfind(',') + 1),
                                                       {"%xmm", "%ymm", "%zmm"});
    }
  }
  return loop;
}

/// Loops without others inside, if they multiply.
std::vector<Loop> innermost_loops(const Function& function) {
  const auto& code = function.code;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;  // shorter ones come first
  std::vector<Loop> loops;
  std::size_t after_return = 0;  // what jumps back over a return is a cold part of the function
  for (std::size_t last = 0; last < code.size(); ++last) {
    if (code[last].mnemonic.starts_with("ret")) after_return = last + 1;
    if (!code[last].mnemonic.starts_with('j')) continue;
    const auto target = std::strtoull(code[last].operands.c_str(), nullptr, 16);
    const auto first = static_cast<std::size_t>(
        std::lower_bound(code.begin(), code.end(), target,
                         [](const Instruction& i, auto address) { return i.address < address; }) -
        code.begin());
    if (first > last || first < after_return) continue;
    const bool has_loop_inside = std::any_of(
        ranges.begin(), ranges.end(), [&](const auto& range) { return range.first >= first; });
    ranges.emplace_back(first, last);
    if (has_loop_inside) continue;
    const Loop loop = describe(function, first, last);
    if (loop.multiplications > 1) loops.push_back(loop);
  }
  return loops;
}

// ------------------------------------------------------------------ what is demanded

/// How many vectors in memory a loop may have for a hundred multiply-adds. Accumulators in memory
/// would make it 200.
struct Allowance {
  int plain, tight;
};

#if defined(__clang__) && __clang_major__ <= 14
// Three rows of 16 registers: 12 accumulators, four of B and one of A. GCC reads B from memory.
constexpr Allowance compilers{0, 75};
#elif !defined(__clang__) && __GNUC__ <= 12
constexpr Allowance compilers{0, 0};
#else
constexpr Allowance compilers{75, 75};  // compilers that the project isn't developed with
#endif

/// The arguments of a template: "float", "float", "6", "1".
std::vector<std::string> template_arguments(Text name, Text function) {
  const auto place = name.find(function);
  if (place == Text::npos) return {};
  const auto begin = place + function.size();
  std::istringstream list{std::string(name.substr(begin, name.find('>', begin) - begin))};
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(list >> std::ws, argument, ',');)
    arguments.push_back(argument);
  return arguments;
}

struct Findings {
  std::vector<std::string> faults;
  std::map<std::string, std::set<int>> rows;  // of the tiles that were looked at
  int integer_loops = 0, single_row_loops = 0;
};

void check_loop(const Function& function, const Loop& loop, int per_hundred, Findings& findings) {
  std::ostringstream text;
  text << function.name.substr(0, function.name.find('(')) << ": a loop of " << loop.multiplications
       << " multiply-adds ";
  if (100 * loop.vectors_in_memory() > per_hundred * loop.multiplications) {
    text << "stores " << loop.vector_stores << " vectors and takes " << loop.vectors_from_stack
         << " from the stack";
  } else if (per_hundred == 0 && loop.others_from_stack + loop.to_general_registers > 4) {
    text << "takes " << loop.others_from_stack << " pointers from the stack and "
         << loop.to_general_registers << " from vector registers";
  } else {
    return;
  }
  findings.faults.push_back(text.str());
}

/// Tiles of the matrix product: inlined or not, with whole panels or a part of one.
void check_tiles(const Function& function, Findings& findings) {
  for (Text name : {"::microkernel<", "::microkernels_of_rows<", "::edge_microkernel<"}) {
    const auto arguments = template_arguments(function.name, name);
    if (arguments.size() < 3) continue;
    const bool compressed = arguments[0] != arguments[1];
    const int rows = std::atoi(arguments[2].c_str());
    const bool tight = rows == 3 && function.target != "avx512";
    // Numbers are widened on their way: SSE2 lacks the instructions, 16 registers are few.
    const int allowed = compressed ? 75 : tight ? compilers.tight : compilers.plain;
    for (const Loop& loop : innermost_loops(function)) {
      if (compressed && function.target == "native") continue;
      check_loop(function, loop, allowed, findings);
      if (loop.multiplications >= 2 * rows)
        findings.rows[function.target + " " + arguments[0] + " " + arguments[1]].insert(rows);
    }
  }
}

/// Products of int8 and the product of one row. The latter transposes squares that fill the
/// registers: with AVX-512, and from -O3 on, compilers bring some of it to the stack.
void check_others(const Function& function, bool single_rows, Findings& findings) {
  const bool integers = is_quantized(function) && function.target != "native";
  const bool single_row = single_rows && function.target == "avx2" &&
                          function.name.find("single_row_microkernel<") != std::string::npos;
  if (!integers && !single_row) return;
  const auto loops = innermost_loops(function);
  const auto fewer = [](const Loop& a, const Loop& b) {
    return a.multiplications < b.multiplications;
  };
  const auto most = std::max_element(loops.begin(), loops.end(), fewer);
  if (most == loops.end()) return;
  check_loop(function, *most, compilers.plain, findings);
  ++(integers ? findings.integer_loops : findings.single_row_loops);
}

bool needs_avx(const Instruction& i) {
  return (i.mnemonic.starts_with('v') && !starts_with_one_of(i.mnemonic, {"verr", "verw"})) ||
         i.has("%ymm");
}

bool needs_avx512(const Instruction& i) {
  if (i.has("%zmm")) return true;
  for (Text name : {"%k", "%xmm", "%ymm"}) {  // masks, and registers 16 to 31
    for (auto at = i.operands.find(name); at != std::string::npos;
         at = i.operands.find(name, at + 1)) {
      if (name == "%k" || std::atoi(i.operands.c_str() + at + name.size()) >= 16) return true;
    }
  }
  return false;
}

void check_instruction_set(const Function& function, Findings& findings) {
  if (function.target == "avx512") return;
  for (const Instruction& i : function.code) {
    const bool wrong = needs_avx512(i) || (function.target != "avx2" && needs_avx(i));
    if (!wrong) continue;
    findings.faults.push_back(function.name + ": " + i.mnemonic + " " + i.operands);
    return;
  }
}

Findings check(std::istream& text, bool single_rows = true) {
  Findings findings;
  for (const Function& function : read_functions(text)) {
    check_tiles(function, findings);
    check_others(function, single_rows, findings);
    check_instruction_set(function, findings);
  }
  return findings;
}

// ------------------------------------------------------------------ the library

#if defined(EIGENFORMER_OBJDUMP) && defined(__ELF__) && EIGENFORMER_CHOOSES_AT_RUN_TIME && \
    !defined(__AVX__)
std::set<int> up_to(int n) {
  std::set<int> numbers;
  for (int i = 1; i <= n; ++i) numbers.insert(i);
  return numbers;
}

void check_object(const std::string& object, bool single_rows) {
  const std::string command = EIGENFORMER_OBJDUMP " -d -C --no-show-raw-insn '" + object + "'";
  std::stringstream text;
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char buffer[65536];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, pipe))
    text.write(buffer, static_cast<std::streamsize>(bytes));
  ASSERT_EQ(pclose(pipe), 0) << command;

  const Findings findings = check(text, single_rows);
  for (const std::string& fault : findings.faults) ADD_FAILURE() << fault;
  // Every tile was found, else the check itself is broken.
  for (const char* type : {"float float", "double double"}) {
    auto rows = findings.rows;
    EXPECT_EQ(rows[std::string("native ") + type], up_to(3));
    EXPECT_EQ(rows[std::string("avx2 ") + type], up_to(6));
    EXPECT_EQ(rows[std::string("avx512 ") + type], up_to(12));
  }
  EXPECT_GE(findings.integer_loops, 6);
  EXPECT_GE(findings.single_row_loops, single_rows ? 2 : 0);
}

TEST(Assembly, OfTheLibraryAtO2) {
  if (std::string(EIGENFORMER_O2_OBJECT).empty()) GTEST_SKIP() << "only with EIGENFORMER_THOROUGH";
  check_object(EIGENFORMER_O2_OBJECT, true);
}

TEST(Assembly, OfTheLibraryAtO3) {
  if (std::string(EIGENFORMER_O3_OBJECT).empty()) GTEST_SKIP() << "the build type isn't Release";
  check_object(EIGENFORMER_O3_OBJECT, false);
}
#else
TEST(Assembly, OfTheLibrary) {
  GTEST_SKIP() << "needs objdump and a build for x86-64 without -m flags by GCC or Clang";
}
#endif

// ------------------------------------------------------------------ the check finds faults

std::vector<std::string> faults(const std::string& name, const std::string& code) {
  std::istringstream text("0000000000000000 <" + name + ">:\n" + code);
  return check(text).faults;
}

const std::string tile =
    "void eigenformer::v0::kernels::avx2::microkernel<float, float, 1, 1>(float const*)";

TEST(Assembly, CleanLoopsPass) {
  // Stores and loads outside the loop, and a jump back from behind the return.
  EXPECT_EQ(faults(tile, R"(
   0:	mov    %rsp,%rbp
   3:	vmovaps %ymm0,-0x40(%rbp)
  10:	vmovups (%rdx),%ymm2
  14:	mov    0x8(%rsp),%rcx
  18:	vfmadd231ps %ymm2,%ymm1,%ymm0
  1d:	vfmadd231ps 0x20(%rdx),%ymm1,%ymm3
  22:	cmp    %rax,%rdx
  25:	jne    10 <f+0x10>
  27:	vmovups %ymm0,(%rdi)
  2b:	ret
  30:	vfmadd231ps %ymm2,%ymm1,%ymm0
  35:	vfmadd231ps -0x40(%rbp),%ymm1,%ymm0
  3a:	jmp    27 <f+0x27>
)"),
            std::vector<std::string>());
}

TEST(Assembly, FindsAccumulatorsInMemory) {
  const std::string fault =
      "void eigenformer::v0::kernels::avx2::microkernel<float, float, 1, 1>: a loop of 2 "
      "multiply-adds stores 2 vectors and takes 1 from the stack";
  EXPECT_EQ(faults(tile, R"(
  10:	vmovups (%rdx),%ymm2
  14:	vfmadd213ps 0x40(%rsp),%ymm1,%ymm2
  1a:	vmovaps %ymm2,0x40(%rsp)
  20:	vfmadd213ps (%rdi),%ymm1,%ymm3
  25:	vmovaps %ymm3,(%rdi)
  2a:	add    $0x20,%rdx
  2e:	jne    10 <f+0x10>
  30:	ret
)"),
            std::vector<std::string>{fault});
}

TEST(Assembly, FindsPointersInVectorRegisters) {
  std::string code = "  10:\tvfmadd231ps %ymm2,%ymm1,%ymm0\n  15:\tvfmadd231ps %ymm2,%ymm1,%ymm3\n";
  for (int i = 0; i < 5; ++i) code += "  1a:\tvmovq  %xmm9,%rax\n";
  EXPECT_EQ(faults(tile, code + "  30:\tjne    10 <f+0x10>\n").size(), 1u);
}

TEST(Assembly, FindsInstructionSetsInTheWrongPlace) {
  const std::string kernels = "eigenformer::v0::kernels::";
  const std::string argument = "(eigenformer::v0::kernels::avx512::Ahead)";
  const std::string ymm = "   0:\tvaddps %ymm0,%ymm1,%ymm2\n";
  EXPECT_EQ(
      faults(kernels + "avx2::f<float>()::{lambda(int)#1}::operator()(int) const", ymm).size(), 0u);
  EXPECT_EQ(faults("_ZN11eigenformer2v07kernels4avx21fIfEEvv", ymm).size(), 0u);
  EXPECT_EQ(faults(kernels + "native::f<float>" + argument, ymm).size(), 1u);
  EXPECT_EQ(faults("void std::f<float>" + argument, ymm).size(), 1u);
  EXPECT_EQ(faults(kernels + "native::f()", "   0:\tvmovss (%rax),%xmm0\n").size(), 1u);
  EXPECT_EQ(faults(kernels + "native::f()", "   0:\tmovss  (%rax),%xmm0\n").size(), 0u);
  for (const char* code : {"vaddps %zmm0,%zmm1,%zmm2", "vaddps %ymm0,%ymm1,%ymm17",
                           "kmovw  %eax,%k1", "vmovaps %xmm16,(%rax)"}) {
    EXPECT_EQ(faults(kernels + "avx2::f<float>()", std::string("   0:\t") + code + "\n").size(),
              1u);
    EXPECT_EQ(faults(kernels + "avx512::f<float>()", std::string("   0:\t") + code + "\n").size(),
              0u);
  }
}

}  // namespace
