/** Dark or light: as the system has it, unless the person has chosen. */

type Choice = 'system' | 'light' | 'dark';
const KEY = 'holdfast.theme';

class Theme {
  choice = $state<Choice>(stored());

  constructor() {
    apply(this.choice);
  }

  choose(choice: Choice): void {
    this.choice = choice;
    localStorage.setItem(KEY, choice);
    apply(choice);
  }
}

function stored(): Choice {
  const text = localStorage.getItem(KEY);
  return text === 'light' || text === 'dark' ? text : 'system';
}

function apply(choice: Choice): void {
  if (choice === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

export const theme = new Theme();
