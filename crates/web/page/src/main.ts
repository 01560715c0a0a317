import { mount } from 'svelte';
import App from './App.svelte';
import './style.css';

const target = document.getElementById('page');
if (!target) throw new Error('the document has no element with the id "page"');
mount(App, { target });
