// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX text to a tree.

#include "Ptx.h"
#include "PtxLexer.h"
#include <cstring>

using namespace shardonnx::emulator;

unsigned shardonnx::emulator::ptxTypeBytes(const std::string &type) {
  static const std::unordered_map<std::string, unsigned> bytes = {
      {"b8", 1},  {"u8", 1},  {"s8", 1},   {"b16", 2},   {"u16", 2},
      {"s16", 2}, {"f16", 2}, {"bf16", 2}, {"b32", 4},   {"u32", 4},
      {"s32", 4}, {"f32", 4}, {"tf32", 4}, {"f16x2", 4}, {"bf16x2", 4},
      {"b64", 8}, {"u64", 8}, {"s64", 8},  {"f64", 8},   {"b128", 16},
  };
  auto found = bytes.find(type);
  return found == bytes.end() ? 0 : found->second;
}

const PtxFunction *PtxModule::findFunction(const std::string &name) const {
  const PtxFunction *declaration = nullptr;
  for (const PtxFunction &function : functions)
    if (function.name == name) {
      if (!function.isDeclaration)
        return &function;
      declaration = &function;
    }
  return declaration;
}

namespace {

class Parser {
public:
  explicit Parser(const char *text) : lexer(text) {}
  PtxModule run();

private:
  using Scope = std::unordered_map<std::string, std::string>;

  [[noreturn]] void fail(const std::string &what) {
    throw PtxError(lexer.peek().line, what);
  }
  void moduleDirective();
  void skipSection();
  void function(bool isEntry);
  std::vector<PtxVariable> parameters();
  void entryDirectives(PtxFunction &function);
  PtxVariable variable(const std::string &space);
  void initialiser(PtxVariable &variable);
  void initialValue(PtxVariable &variable, uint64_t &offset);
  void body(PtxFunction &function);
  void registers(PtxFunction &function);
  void statement(PtxFunction &function);
  void bodyDirective(PtxFunction &function, const std::string &word);
  void label(PtxFunction &function, const std::string &name);
  void instruction(PtxFunction &function, const std::string &opcode,
                   PtxInstruction result);
  PtxOperand operand();
  PtxOperand nameOperand();
  std::vector<PtxOperand> operands(const char *end);
  int64_t integer();
  std::string resolve(const std::string &name) const;
  std::string declare(const std::string &name);

  PtxLexer lexer;
  PtxModule module;
  std::vector<Scope> scopes;
  unsigned uniquer = 0;
};

} // namespace

PtxModule shardonnx::emulator::parsePtx(const char *text) {
  return Parser(text).run();
}

PtxModule Parser::run() {
  while (lexer.peek().kind != PtxToken::End)
    moduleDirective();
  if (module.target.empty())
    fail("no .target: this is not PTX");
  return std::move(module);
}

void Parser::skipSection() {
  while (!lexer.peek().is("{"))
    lexer.next();
  unsigned depth = 0;
  do {
    if (lexer.peek().kind == PtxToken::End)
      fail("unclosed section");
    depth += lexer.peek().is("{");
    depth -= lexer.peek().is("}");
    lexer.next();
  } while (depth);
}

void Parser::moduleDirective() {
  unsigned line = lexer.peek().line;
  bool isExtern = false;
  for (;;) {
    std::string word = lexer.word();
    if (word == ".visible" || word == ".weak" || word == ".common") {
      continue;
    }
    if (word == ".extern") {
      isExtern = true;
    } else if (word == ".version") {
      PtxToken number = lexer.next();
      double value;
      std::memcpy(&value, &number.value, sizeof value);
      module.version = static_cast<unsigned>(value * 10 + 0.5);
      return;
    } else if (word == ".target") {
      module.target = lexer.word();
      while (lexer.accept(","))
        lexer.word();
      return;
    } else if (word == ".address_size") {
      if (integer() != 64)
        fail(".address_size must be 64");
      return;
    } else if (word == ".file" || word == ".loc") {
      return lexer.skipLine();
    } else if (word == ".section") {
      return skipSection();
    } else if (word == ".entry" || word == ".func") {
      return function(word == ".entry");
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      module.variables.push_back(variable(word.substr(1)));
      module.variables.back().isExtern = isExtern;
      return lexer.expect(";");
    } else {
      throw PtxError(line, "unknown directive '" + word + "'");
    }
  }
}

int64_t Parser::integer() {
  bool negative = lexer.accept("-");
  PtxToken token = lexer.next();
  if (token.kind != PtxToken::Int)
    throw PtxError(token.line, "expected a number, found '" + token.text + "'");
  return negative ? -token.value : token.value;
}

/// `.align 4 .b8 name[16]`, after the space.
PtxVariable Parser::variable(const std::string &space) {
  PtxVariable result;
  result.space = space;
  uint64_t width = 0;
  for (;;) {
    std::string word = lexer.word();
    if (word == ".align") {
      result.align = static_cast<uint64_t>(integer());
    } else if (word == ".v2" || word == ".v4") {
      width = word == ".v2" ? 2 : 4;
    } else if (word == ".ptr" || word == ".global" || word == ".const" ||
               word == ".local" || word == ".shared") {
      // Pointer attributes of a kernel's parameter.
    } else if (word == ".attribute") {
      lexer.expect("(");
      lexer.word();
      lexer.expect(")");
    } else if (word[0] == '.' && ptxTypeBytes(word.substr(1))) {
      result.type = word.substr(1);
    } else if (word == ".pred" || word == ".texref" || word == ".surfref" ||
               word == ".samplerref" || word[0] == '.') {
      fail("variables of type '" + word + "' are not emulated");
    } else {
      result.name = word;
      break;
    }
  }
  uint64_t count = width ? width : 1;
  uint64_t element = ptxTypeBytes(result.type);
  while (lexer.accept("[")) {
    count *= lexer.peek().is("]") ? 0 : static_cast<uint64_t>(integer());
    lexer.expect("]");
  }
  result.size = count * element;
  result.align = std::max(result.align, element);
  if (lexer.accept("="))
    initialiser(result);
  return result;
}

void Parser::initialiser(PtxVariable &variable) {
  uint64_t offset = 0;
  unsigned depth = 0;
  do {
    if (lexer.accept("{"))
      ++depth;
    else if (lexer.accept("}"))
      --depth;
    else if (!lexer.accept(","))
      initialValue(variable, offset);
  } while (depth);
  if (!variable.size)
    variable.size = offset;
}

void Parser::initialValue(PtxVariable &variable, uint64_t &offset) {
  unsigned bytes = ptxTypeBytes(variable.type);
  int64_t value = 0;
  if (lexer.peek().kind == PtxToken::Word) {
    std::string symbol = lexer.word();
    if (symbol == "generic") {
      lexer.expect("(");
      symbol = lexer.word();
      lexer.expect(")");
    }
    int64_t addend = lexer.accept("+") ? integer() : 0;
    variable.references.push_back({offset, symbol, addend});
  } else {
    bool negative = lexer.accept("-");
    PtxToken token = lexer.next();
    if (token.kind != PtxToken::Int && token.kind != PtxToken::Float32 &&
        token.kind != PtxToken::Float64)
      fail("unknown initial value '" + token.text + "'");
    value = negative ? -token.value : token.value;
  }
  if (variable.initial.size() < offset + bytes)
    variable.initial.resize(offset + bytes);
  std::memcpy(variable.initial.data() + offset, &value, std::min(bytes, 8u));
  offset += bytes;
}

std::vector<PtxVariable> Parser::parameters() {
  std::vector<PtxVariable> result;
  lexer.expect("(");
  while (!lexer.accept(")")) {
    std::string space = lexer.word();
    if (space != ".param" && space != ".reg")
      fail("expected .param, found '" + space + "'");
    result.push_back(variable("param"));
    lexer.accept(",");
  }
  return result;
}

void Parser::entryDirectives(PtxFunction &function) {
  while (!lexer.peek().is("{") && !lexer.peek().is(";")) {
    std::string word = lexer.word();
    bool counted = word == ".maxntid" || word == ".reqntid";
    uint32_t product = 1;
    while (lexer.peek().kind == PtxToken::Int || lexer.peek().is(",") ||
           lexer.peek().kind == PtxToken::String) {
      PtxToken token = lexer.next();
      product *= token.kind == PtxToken::Int ? uint32_t(token.value) : 1;
    }
    if (counted)
      function.maxThreads = product;
    if (word == ".pragma")
      lexer.accept(";");
  }
}

void Parser::function(bool isEntry) {
  PtxFunction result;
  result.isEntry = isEntry;
  if (!isEntry && lexer.peek().is("("))
    result.results = parameters();
  result.name = lexer.word();
  if (lexer.peek().is("("))
    result.params = parameters();
  entryDirectives(result);
  if (lexer.accept(";"))
    result.isDeclaration = true;
  else
    body(result);
  module.functions.push_back(std::move(result));
}

std::string Parser::resolve(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    auto found = scope->find(name);
    if (found != scope->end())
      return found->second;
  }
  return name;
}

/// The unique name of a variable or register of the innermost scope.
std::string Parser::declare(const std::string &name) {
  if (scopes.size() == 1)
    return name;
  // No colon or digit at the end: a numbered register must not be matched.
  std::string unique = name + "@" + std::to_string(++uniquer) + "@";
  scopes.back()[name] = unique;
  return unique;
}

void Parser::body(PtxFunction &function) {
  lexer.expect("{");
  scopes.assign(1, Scope());
  while (!scopes.empty())
    statement(function);
}

void Parser::registers(PtxFunction &function) {
  std::string type = lexer.word().substr(1);
  if (type == "v2" || type == "v4")
    fail("vector registers are not emulated");
  do {
    std::string name = lexer.word();
    if (lexer.accept("<")) {
      integer();
      lexer.expect(">");
      function.ranges[name] = type;
    } else {
      function.registers[declare(name)] = type;
    }
  } while (lexer.accept(","));
  lexer.expect(";");
}

void Parser::label(PtxFunction &function, const std::string &name) {
  if (lexer.accept(".branchtargets")) {
    std::vector<std::string> &targets = function.branchTargets[name];
    do
      targets.push_back(lexer.word());
    while (lexer.accept(","));
    return lexer.expect(";");
  }
  if (lexer.accept(".callprototype")) {
    while (!lexer.accept(";"))
      lexer.next();
    return;
  }
  if (!function.labels.emplace(name, function.body.size()).second)
    fail("label '" + name + "' is defined twice");
}

void Parser::bodyDirective(PtxFunction &function, const std::string &word) {
  if (word == ".reg")
    return registers(function);
  if (word == ".loc" || word == ".file")
    return lexer.skipLine();
  if (word == ".pragma") {
    lexer.next();
    return lexer.expect(";");
  }
  if (word != ".local" && word != ".shared" && word != ".param" &&
      word != ".global" && word != ".const")
    fail("unknown directive '" + word + "'");
  do {
    PtxVariable declared = variable(word.substr(1));
    declared.name = declare(declared.name);
    function.variables.push_back(std::move(declared));
  } while (lexer.accept(","));
  lexer.expect(";");
}

void Parser::statement(PtxFunction &function) {
  if (lexer.accept("{"))
    return scopes.emplace_back(), void();
  if (lexer.accept("}"))
    return scopes.pop_back();
  if (lexer.accept(";"))
    return;
  PtxInstruction result;
  result.line = lexer.peek().line;
  if (lexer.accept("@")) {
    result.guardNegated = lexer.accept("!");
    result.guard = resolve(lexer.word());
  }
  std::string word = lexer.word();
  if (word[0] == '.')
    return bodyDirective(function, word);
  if (lexer.accept(":"))
    return label(function, word);
  instruction(function, word, std::move(result));
}

void Parser::instruction(PtxFunction &function, const std::string &opcode,
                         PtxInstruction result) {
  result.text = opcode;
  for (size_t at = 0; at <= opcode.size();) {
    size_t dot = std::min(opcode.find('.', at), opcode.size());
    result.opcode.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  result.operands = operands(";");
  function.body.push_back(std::move(result));
}

std::vector<PtxOperand> Parser::operands(const char *end) {
  std::vector<PtxOperand> result;
  while (!lexer.accept(end)) {
    result.push_back(operand());
    if (!lexer.peek().is(end))
      lexer.expect(",");
  }
  return result;
}

PtxOperand Parser::nameOperand() {
  PtxOperand result;
  result.name = resolve(lexer.word());
  if (lexer.accept("|"))
    result.pair = resolve(lexer.word());
  if (lexer.accept("+"))
    result.imm = integer();
  else if (lexer.peek().is("-"))
    result.imm = integer();
  return result;
}

PtxOperand Parser::operand() {
  PtxOperand result;
  if (lexer.accept("{")) {
    result.elements = operands("}");
    result.kind = PtxOperand::Vector;
    return result;
  }
  if (lexer.accept("(")) {
    result.elements = operands(")");
    result.kind = PtxOperand::List;
    return result;
  }
  if (lexer.accept("[")) {
    if (lexer.peek().kind == PtxToken::Word)
      result = nameOperand();
    else
      result.imm = integer();
    if (lexer.peek().is(","))
      fail("tensor and texture addresses are not emulated");
    lexer.expect("]");
    result.kind = PtxOperand::Address;
    return result;
  }
  if (lexer.accept("!")) {
    result = operand();
    result.negated = true;
    return result;
  }
  if (lexer.peek().kind == PtxToken::Word)
    return nameOperand();
  bool negative = lexer.accept("-");
  PtxToken token = lexer.next();
  result.imm = token.value;
  if (token.kind == PtxToken::Float32)
    result.kind = PtxOperand::Float32;
  else if (token.kind == PtxToken::Float64)
    result.kind = PtxOperand::Float64;
  else if (token.kind == PtxToken::Int)
    result.kind = PtxOperand::Int;
  else
    throw PtxError(token.line, "unexpected '" + token.text + "'");
  if (negative)
    result.imm = result.kind == PtxOperand::Int
                     ? -result.imm
                     : result.imm ^ INT64_MIN; // a decimal double
  return result;
}
