# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of ringsum's command line in bash. It knows no option: it asks the command that is
# being completed (`ringsum --facts`), so that it offers what that very command takes.

# The lines of $facts that begin with $1 and a tab, without that.
_ringsum_facts()
{
	local line

	while IFS= read -r line; do
		[[ $line == "$1"$'\t'* ]] && printf '%s\n' "${line#"$1"$'\t'}"
	done <<<"$facts"
}

# Offers those of the words, which stand on standard input one on each line, that begin with $1.
_ringsum_offer()
{
	local candidate

	while IFS= read -r candidate; do
		[[ $candidate == "$1"* ]] && COMPREPLY+=("$candidate")
	done
}

# Offers values of an option. $1 is its kind and, behind a tab, its choices; $2 is what is there.
_ringsum_value()
{
	case $1 in
	choice$'\t'*) _ringsum_offer "$2" < <(tr ' ' '\n' <<<"${1#*$'\t'}") ;;
	file$'\t'* | text$'\t'DIR* | text$'\t'PATH*) compopt -o default ;;
	esac
}

_ringsum()
{
	local facts word=${COMP_WORDS[COMP_CWORD]} before=$((COMP_CWORD - 1)) kind i
	local command=${COMP_WORDS[1]} tab=$'\t'

	COMPREPLY=()
	facts=$("${1/#\~\//$HOME/}" --facts 2>/dev/null </dev/null) || return 0
	if ((COMP_CWORD == 1)); then
		[[ $word == -* ]] || _ringsum_offer "$word" < <(_ringsum_facts command | cut -f 1)
		[[ $word != -* ]] ||
			_ringsum_offer "$word" < <(_ringsum_facts "option$tab" | cut -f 1)
		return 0
	fi
	if [[ $command == help ]]; then
		((COMP_CWORD > 2)) || _ringsum_offer "$word" < <(_ringsum_facts command | cut -f 1)
		return 0
	fi

	# "--engine=pread" is three words here.
	if [[ $word == = ]]; then
		word=
	elif [[ ${COMP_WORDS[before]} == = ]]; then
		before=$((before - 1))
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			compopt -o default
			return 0
		fi
	done
	kind=$(_ringsum_facts "option$tab$command$tab${COMP_WORDS[before]}")
	if ((before > 1)) && [[ -n $kind && $kind != flag* ]]; then
		_ringsum_value "$kind" "$word"
	elif [[ $word == -?* || $word == - ]]; then
		_ringsum_offer "$word" < <(_ringsum_facts "option$tab$command" | cut -f 1)
	else
		compopt -o default
	fi
}

complete -F _ringsum ringsum
